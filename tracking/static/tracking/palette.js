// The map's colours, light and dark. Data only; the page's own colours are in theme.css.
// Read by basemap, icons and labels.

const LIGHT = {
  water: "#d3e3ee", land: "#f7f5f0", landEdge: "#a9bccb", border: "#cfc8ba",
  graticule: "#bdd1df", shelf: "#c6dae8",
  city: "#3d4754", country: "#8d8676", sea: "#7d9ab0", halo: "#fbfaf7", seaHalo: "#d3e3ee",
  outline: "#ffffff", shadow: "rgba(22, 34, 48, 0.35)", ring: "#2563eb", trail: "#2563eb",
  label: "#17212e", labelHalo: "#ffffff",
  live: "#12924f", idle: "#2a7fd4", stale: "#d97e06", lost: "#d3312f", stopped: "#64707f", never: "#98a2ae",
};

const DARK = {
  water: "#0d1722", land: "#1b2733", landEdge: "#34485a", border: "#334350",
  graticule: "#182636", shelf: "#101d2a",
  city: "#c3ced9", country: "#6f8090", sea: "#44617a", halo: "#16202b", seaHalo: "#0d1722",
  outline: "#0c141d", shadow: "rgba(0, 0, 0, 0.6)", ring: "#6ea8ff", trail: "#6ea8ff",
  label: "#eef3f8", labelHalo: "#0c141d",
  live: "#3ddc84", idle: "#5cb0ff", stale: "#ffb22e", lost: "#ff6b66", stopped: "#93a1b0", never: "#6b7886",
};

export const palette = (dark) => (dark ? DARK : LIGHT);
