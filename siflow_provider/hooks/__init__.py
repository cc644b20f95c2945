"""Airflow's side of a connection: settings, alerts, processes."""
