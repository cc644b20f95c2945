"""Airflow connection -> backend settings."""
