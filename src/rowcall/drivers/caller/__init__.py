"""Run plans on connections that belong to the app, inside the app's own transactions."""
