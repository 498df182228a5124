"""Trials on the hosts of an Ansible inventory."""
