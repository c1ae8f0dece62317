#!/bin/sh
# install.sh PACKAGE LOCK FOLDER: unpacks the npm package into an empty folder, together with its dependencies, in the
# versions of the lock file. Packages include their compiled parts, so none of their scripts has to run here.
set -eu
package=$1 lock=$2 folder=$3

mkdir -p "$folder"
tar -xzf "$package" -C "$folder" --strip-components=1
cp "$lock" "$folder/package-lock.json"
cd "$folder"

# Development dependencies are removed from both files: npm need not resolve them.
node -e '
  const fs = require("node:fs")
  const edit = (file, change) => {
    const content = JSON.parse(fs.readFileSync(file, "utf8"))
    change(content)
    fs.writeFileSync(file, JSON.stringify(content, null, 2))
  }
  const strip = (content) => {
    delete content.devDependencies
    delete content.overrides
  }
  edit("package.json", strip)
  edit("package-lock.json", ({ packages }) => strip(packages[""]))
'
npm ci --omit=dev --ignore-scripts --no-audit --no-fund
rm package-lock.json

# Files in packages that Node never runs: types, sources and source maps.
find node_modules -type f \( -name '*.ts' -o -name '*.mts' -o -name '*.cts' -o -name '*.map' \) -delete
