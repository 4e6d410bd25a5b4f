"""Prints as JSON what Python's netCDF4 and csv modules read in files of the measurement programs."""

import csv
import json
import sys

import netCDF4


def netcdf(path):
    with netCDF4.Dataset(path) as file:
        variables = file.variables
        return {
            "format": file.data_model,
            "dimensions": {name: len(size) for name, size in file.dimensions.items()},
            "unlimited": [name for name, size in file.dimensions.items() if size.isunlimited()],
            "scalars": {name: int(value[...]) for name, value in variables.items() if value.ndim == 0},
            "data_dimensions": variables["data"].dimensions,
            "data": variables["data"][:].tolist(),
        }


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file, strict=True))


def read(path):
    return netcdf(path) if path.endswith(".nc") else table(path)


print(json.dumps([read(path) for path in sys.argv[1:]]))
