import { parseArgs } from 'node:util'
import { type StrikeName, strikeNames } from './strikes.ts'

/** What a soak does, and for how long. */
export interface SoakOptions {
  /** Draws gateways, moments and the order of strikes. The load itself is as fast as the machine. */
  readonly seed: number
  /** Paid calls that are begun a second. */
  readonly rate: number
  /** Each request to a node takes this much longer. */
  readonly latencyMs: number
  /** Milliseconds between blocks of the EVM chain; 0: each transaction has one at once. */
  readonly blockMs: number
  readonly chains: readonly ('evm' | 'solana')[]
  readonly store: 'sqlite' | 'postgres'
  readonly gateways: 1 | 2
  /** How often each thing happens. */
  readonly strikes: Readonly<Partial<Record<StrikeName, number>>>
  /** Longest time between two strikes. */
  readonly pauseMs: number
  /** How long something stands still or is away. */
  readonly unavailableMs: number
  /** Payments that are presented a hundred times at once, before anything is struck. */
  readonly hundreds: number
  /** A folder that gets what each gateway said; undefined: it is dropped. */
  readonly logs: string | undefined
}

export const soakDefaults: SoakOptions = {
  seed: 1,
  rate: 20,
  latencyMs: 40,
  blockMs: 2_000,
  chains: ['evm'],
  store: 'postgres',
  gateways: 2,
  strikes: {},
  pauseMs: 4_000,
  unavailableMs: 20_000,
  hundreds: 0,
  logs: undefined,
}

const help = `Usage: node test/soak/run.ts [options]

Two gateways (tollgate start) on a PostgreSQL and a Redis of their own, under paid calls, and what befalls them; afterwards
books, chain and tollgate doctor have to agree. Exit status 0 when they do.

  --seed N        draws moments and order (default ${soakDefaults.seed})
  --rate N        paid calls begun a second (${soakDefaults.rate})
  --latency MS    of each request to a node (${soakDefaults.latencyMs})
  --blocks MS     between blocks of the EVM chain; 0: at once (${soakDefaults.blockMs})
  --chains A,B    evm, solana (evm)
  --store NAME    sqlite or postgres (postgres)
  --gateways N    1 or 2 (2)
  --pause MS      longest time between two strikes (${soakDefaults.pauseMs})
  --away MS       how long something stands still or is away (${soakDefaults.unavailableMs})
  --hundreds N    payments presented a hundred times at once, first of all (0)
  --logs DIR      gets what each gateway said, a file for each start
${strikeNames.map((name) => `  --${name} N`).join('\n')}
`

/** @throws an Error in words */
export function readSoakOptions(args: readonly string[]): SoakOptions | { readonly help: string } {
  const names = [
    'seed',
    'rate',
    'latency',
    'blocks',
    'chains',
    'store',
    'gateways',
    'pause',
    'away',
    'hundreds',
  ]
  const options = Object.fromEntries(
    [...names, ...strikeNames].map((name) => [name, { type: 'string' as const }]),
  )
  const parsed = parseArgs({
    args: [...args],
    options: { ...options, logs: { type: 'string' }, help: { type: 'boolean' } },
  })
  const values: Readonly<Record<string, string | boolean | undefined>> = parsed.values
  if (values['help'] === true) return { help }
  const number = (name: string, otherwise: number): number => {
    const text = values[name]
    if (text === undefined) return otherwise
    const value = Number(text)
    if (text === '' || !Number.isFinite(value) || value < 0)
      throw new Error(`--${name} takes a number of 0 or more, not "${text}".`)
    return value
  }
  const oneOf = <T extends string>(name: string, known: readonly T[], otherwise: T): T => {
    const text = values[name] ?? otherwise
    if (!known.includes(text as T)) throw new Error(`--${name} takes ${known.join(' or ')}, not "${text}".`)
    return text as T
  }
  const chains = String(values['chains'] ?? 'evm').split(',')
  const strange = chains.find((chain) => chain !== 'evm' && chain !== 'solana')
  if (strange !== undefined) throw new Error(`--chains takes evm, solana or both, not "${strange}".`)
  return {
    seed: number('seed', soakDefaults.seed),
    rate: number('rate', soakDefaults.rate),
    latencyMs: number('latency', soakDefaults.latencyMs),
    blockMs: number('blocks', soakDefaults.blockMs),
    chains: chains as SoakOptions['chains'],
    store: oneOf('store', ['sqlite', 'postgres'], 'postgres'),
    gateways: oneOf('gateways', ['1', '2'], '2') === '1' ? 1 : 2,
    strikes: Object.fromEntries(strikeNames.map((name) => [name, number(name, 0)])),
    pauseMs: number('pause', soakDefaults.pauseMs),
    unavailableMs: number('away', soakDefaults.unavailableMs),
    hundreds: number('hundreds', soakDefaults.hundreds),
    logs: values['logs'] as string | undefined,
  }
}
