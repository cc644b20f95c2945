"""The demo: a real Airflow, one retraining run through its scheduler, shown on the terminal."""
