"""
Page heat of a profile
======================

Evaluations replay a recording of what a program read. This is what is in one.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np

import tiertune

profile = tiertune.record("masim-stairs-ci", "skx-numa", results=tempfile.mkdtemp())
profile

# %%
# Lines read by place in memory and time, on a logarithmic scale.
figure, axes = plt.subplots()
picture = axes.imshow(np.log10(1 + profile.heat), origin="lower", aspect="auto", extent=(0, 1, 0, 1))
axes.set(xlabel="share of the run", ylabel="address (share of the footprint)")
figure.colorbar(picture, label="log10 of lines read")
