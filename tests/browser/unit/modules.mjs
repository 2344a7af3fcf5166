// Where the pages' modules live, seen from the tests.
export const from = (name) => import(new URL(`../../../tracking/static/tracking/${name}.js`, import.meta.url));
