"""Everything on one machine: what `manage.py demo` starts, watches and reports.

Before it: `project.embedded` gives the services. It reaches the apps only through
their commands and the figures of `/metrics`, so that it imports none of them.
"""
