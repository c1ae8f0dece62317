import type { Bench } from './bench.ts'
import type { Measured } from './figures.ts'
import { measure, ratio } from './harness/rounds.ts'

const sizes = ['1k', '100k'] as const

/**
 * What `{"data":…,"_svc":…}` around a bought answer costs against the same answer raw. Nothing is checked or stored
 * (servers/boughtPlugin.ts), since beside a signature check any wrapper would look free.
 */
export const wrap: Bench = {
  keys: ['wrap1k_vs_none', 'wrap100k_vs_none'],
  async run(context) {
    const { servers, wants, progress } = context
    const { port: upstreamPort } = await servers.upstream()
    const links = sizes.flatMap((size) =>
      (['wrap', 'raw'] as const).map((responseMode) => ({
        slug: `${responseMode}-${size}`,
        path: `/${size}`,
        price: '0.10',
        responseMode,
      })),
    )
    const plugins = ['rate-limit', 'health', 'bench-bought', 'upstream', 'metrics']
    const folder = servers.folder()
    const server = await servers.start('gateway.ts', { upstreamPort, folder, links, plugins })
    const measured: Measured = {}
    for (const size of sizes) {
      const key = `wrap${size}_vs_none` as const
      if (!wants(key)) continue
      progress(`bought answer of ${size}:`)
      const names = [`wrap-${size}`, `raw-${size}`] as const
      const candidates = names.map((name) => ({
        name,
        server,
        load: () => ({ path: `/api/link/demo/${name}` }),
        expect: 'success' as const,
      }))
      measured[key] = ratio(await measure(candidates, context), ...names)
    }
    return measured
  },
}
