import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { parse, stringify } from 'yaml'
import { freePort } from '../../helpers/freePort.ts'
import { newSchema } from '../../helpers/postgres.ts'
import type { Chains } from './chains.ts'

/** A configuration file of a test, in a folder of its own. */
export interface ConfigFile {
  readonly dir: string
  readonly file: string
  readonly url: string
  /** Writes the file again: sections that replace those of the same name, plugins beside the built-in ones. */
  rewrite(sections: object, pluginsBefore?: ConfigSections['pluginsBefore']): void
  /**
   * Writes another file beside it, as it stands now: of a gateway with a port of its own on the same database.
   *
   * @param change makes sections of those that are there, which they replace
   */
  // biome-ignore lint/suspicious/noExplicitAny: what a test has written itself
  beside(name: string, change?: (own: any) => object): Promise<Pick<ConfigFile, 'file' | 'url'>>
}

export interface ConfigSections {
  /** Merged over the settings of each network, by the chain's name. */
  readonly evm?: object
  readonly solana?: object
  /** Plugins beside the built-in ones, by the built-in one that they stand in front of. */
  readonly pluginsBefore?: Readonly<Record<string, object>>
  /** Options of the built-in plugins, by the plugin's name. */
  readonly pluginOptions?: Readonly<Record<string, object>>
  /** Sections that replace the test's own. */
  readonly sections?: object
  /** Where it is kept: a file in the test's folder, or a schema of its own. Default: what TEST_STORE says, else the file. */
  readonly store?: 'sqlite' | 'postgres'
}

/**
 * Parts of a configuration whose gateway waits for chains and sellers as long as a busy machine needs, for tests in which no timeout
 * is due. Otherwise timeouts are short, because many tests wait for one.
 */
export const patient = {
  settleTimeoutMs: 60_000,
  upstream: { headersTimeoutMs: 60_000 },
}

const builtIn: readonly { readonly use: string; readonly with?: object }[] = [
  { use: 'rate-limit', with: { points: 1_000_000, paymentPoints: 1_000_000 } },
  { use: 'health', with: { probe: false } },
  { use: 'x402' },
  { use: 'replay-guard' },
  { use: 'upstream', with: { headersTimeoutMs: 1_500 } },
  { use: 'purchase-record' },
  { use: 'metrics' },
]

/** Writes the YAML that an operator would write for the local chains, with limits that a test does not reach. */
export async function writeConfig(
  t: Pick<Test, 'teardown'>,
  chains: Chains,
  parts: ConfigSections = {},
): Promise<ConfigFile> {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-e2e-'))
  t.teardown(() => rmSync(dir, { recursive: true, force: true }))
  const [evm, solana] = chains.both
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const isPostgres = (parts.store ?? process.env['TEST_STORE']) === 'postgres'
  const own = {
    publicUrl: url,
    gateway: { port, drainTimeoutMs: 3_000 },
    admin: { port: 0 },
    storage: { path: './data/tollgate.db', ...(isPostgres && { postgres: newSchema(t) }) },
    secretFile: './data/secret',
    networks: {
      [evm.network]: {
        rpcUrls: [evm.rpc.url],
        settleTimeoutMs: 4_000,
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}' },
        ...parts.evm,
      },
      [solana.network]: {
        rpcUrls: [solana.rpc.url],
        settleTimeoutMs: 4_000,
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_SOLANA_KEY}' },
        ...parts.solana,
      },
    },
    egress: { allowPrivateCidrs: ['127.0.0.0/8'] },
    log: { level: 'error', format: 'json' },
    ...parts.sections,
  }
  const file = join(dir, 'tollgate.yaml')
  const write = (sections: object, pluginsBefore?: ConfigSections['pluginsBefore']) =>
    writeFileSync(
      file,
      stringify({ ...own, plugins: pluginList(pluginsBefore, parts.pluginOptions), ...sections }),
    )
  write({}, parts.pluginsBefore)
  const beside: ConfigFile['beside'] = async (name, change = () => ({})) => {
    const now = parse(readFileSync(file, 'utf8'))
    const gateway = { ...now.gateway, port: await freePort() }
    const other = join(dir, `${name}.yaml`)
    writeFileSync(other, stringify({ ...now, gateway, ...change(now) }))
    return { file: other, url: `http://127.0.0.1:${gateway.port}` }
  }
  return { dir, file, url, rewrite: write, beside }
}

const pluginList = (before: ConfigSections['pluginsBefore'], options: ConfigSections['pluginOptions'] = {}) =>
  builtIn
    .map(({ use, with: own }) => ({ use, with: { ...own, ...options[use] } }))
    .flatMap((one) => (before?.[one.use] === undefined ? [one] : [before[one.use], one]))
