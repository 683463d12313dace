"""The report of a store: tables, figures and a page. Loads no learning framework."""
