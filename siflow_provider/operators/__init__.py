"""Operators: validate, render, submit, defer."""
