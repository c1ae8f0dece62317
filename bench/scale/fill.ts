// Fills a folder with a database as a year of business leaves it, its secret and a configuration:
// `node bench/scale/fill.ts --links 100000 --sales 1000000 FOLDER`. Start the gateway on it with `PORT=18080 node cli/bin.js
// start --config FOLDER/tollgate.yaml`, after its sellers, `node bench/servers/upstream.ts '{"port":18081,"host":"0.0.0.0"}'`,
// and a chain, `node bench/servers/chainNode.ts '{"port":18082}'`.
import { parseArgs } from 'node:util'
import { fillStore, UPSTREAM_PORT } from './fillStore.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    links: { type: 'string', default: '100000' },
    sales: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    'upstream-port': { type: 'string', default: String(UPSTREAM_PORT) },
  },
})
const [folder] = positionals
if (folder === undefined) {
  console.error('Expected the folder to fill, got none.')
  process.exit(2)
}
const startedMs = performance.now()
await fillStore({
  folder,
  links: Number(values.links),
  sales: Number(values.sales),
  seed: Number(values.seed),
  upstreamPort: Number(values['upstream-port']),
  progress: (line) => console.error(`${((performance.now() - startedMs) / 1_000).toFixed(1)} s: ${line}`),
})
