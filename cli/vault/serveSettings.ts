import { readFileSync } from 'node:fs'
import type { Environment } from '../../core/config/read/interpolate.ts'
import type { AuditLimits } from '../../vault/audit/auditEntry.ts'
import { ownAssets } from '../../vault/config/ownAssets.ts'
import type { VaultConfig } from '../../vault/config/vaultConfigSchema.ts'
import type { AssetTable } from '../../vault/effects/assets.ts'
import type { VaultPluginEntry } from '../../vault/host/pipelines.ts'
import type { LocalAgentsOptions } from '../../vault/http/localAgents.ts'
import { relayUrl } from '../../vault/remote/relayLink.ts'
import { UsageError, wholeNumber } from '../output/exitCodes.ts'
import type { OwnChain } from './paymentRpc.ts'

/** The flags of `tollgate vault` that its configuration file can also set. */
export interface ServeFlags {
  readonly config?: string
  readonly host?: string
  readonly port?: string
  readonly localAgent?: string
  readonly localPort?: string
  readonly requireToken?: boolean
  readonly testnets?: boolean
  readonly relay?: string
  readonly relayCa?: string
  readonly solanaRpc?: string
  readonly idleMinutes?: string
  readonly maxHours?: string
}

/** How a vault runs. A setting comes from its flag, else from the configuration file, else from the default. */
export interface ServeSettings {
  readonly host: string
  readonly port: number
  /** Undefined if there is no port for local agents without a token. */
  readonly local: Omit<LocalAgentsOptions, 'host'> | undefined
  readonly testnets: boolean
  readonly relay: string | undefined
  /** PEM text. */
  readonly relayCa: string | undefined
  readonly solanaRpc: string | undefined
  /** URLs of the owner's RPC nodes of EVM chains, by the chain's name. */
  readonly evmRpc: VaultConfig['evmRpc']
  /** The pinned chains and assets, and those of the owner. */
  readonly assets: AssetTable
  /** The owner's chains, which are always offered, with the RPC node of each. */
  readonly ownChains: readonly OwnChain[]
  readonly idleLockMs: number
  readonly maxAgeMs: number
  readonly logLimits: AuditLimits
  readonly plugins: readonly VaultPluginEntry[]
  /** Private address ranges that plugins may connect to. */
  readonly pluginCidrs: readonly string[]
}

/** The chains and assets of a configuration, in the form that a host accepts. */
export const ownSettings = (
  config: Pick<VaultConfig, 'chains' | 'assets'>,
): Pick<ServeSettings, 'assets' | 'ownChains'> => ({
  assets: ownAssets(config).assets,
  ownChains: config.chains.map(({ name, rpc }) => ({ name, rpc })),
})

/**
 * Reads the vault's configuration and applies the flags to it.
 *
 * @param warn receives warnings about valid but probably unintended settings
 * @throws {ConfigError} for the file, {UsageError} for a flag
 */
export async function serveSettings(
  flags: ServeFlags,
  home: string,
  env: Environment,
  warn: (text: string) => void,
): Promise<ServeSettings> {
  const { readVaultConfig } = await import('./readVaultConfig.ts')
  const { config, plugins, warnings } = await readVaultConfig(home, flags.config, env)
  for (const warning of warnings) warn(warning)
  const number = (name: string, flag: string | undefined, configured: number, least: number, most: number) =>
    flag === undefined ? configured : wholeNumber(name, flag, least, most)
  const caFile = flags.relayCa ?? config.relayCa
  const requireToken = flags.requireToken ?? config.requireToken
  const localAgent = flags.localAgent ?? config.localAgent
  const localPort = number('--local-port', flags.localPort, config.localPort, 0, 65_535)
  return {
    host: flags.host ?? config.host,
    port: number('--port', flags.port, config.port, 0, 65_535),
    local:
      localAgent === undefined && !requireToken
        ? undefined
        : { port: localPort, agent: requireToken ? undefined : localAgent },
    testnets: flags.testnets ?? config.testnets,
    relay: checkedRelay(flags.relay ?? config.relay),
    relayCa: caFile === undefined ? undefined : readCa(caFile),
    solanaRpc: checkedNode(flags.solanaRpc ?? config.solanaRpc),
    evmRpc: config.evmRpc,
    ...ownSettings(config),
    idleLockMs: number('--idle-minutes', flags.idleMinutes, config.idleMinutes, 1, 10_080) * 60_000,
    maxAgeMs: number('--max-hours', flags.maxHours, config.maxHours, 1, 168) * 3_600_000,
    logLimits: {
      maxBytes: config.log.maxMegabytes * 1_048_576,
      keepMs: config.log.keepDays === undefined ? undefined : config.log.keepDays * 86_400_000,
    },
    plugins,
    pluginCidrs: config.pluginEgress.allowPrivateCidrs,
  }
}

/**
 * Checks the relay's address at the start, because a mistake would otherwise appear only after the unlock. @throws {UsageError}
 */
function checkedRelay(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  try {
    relayUrl(text)
    return text
  } catch (error) {
    throw new UsageError(`--relay: ${(error as Error).message}, got ${text}`)
  }
}

function checkedNode(text: string | undefined): string | undefined {
  if (text === undefined || /^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text
  throw new UsageError(`Expected --solana-rpc to be the address of a node, https://…, got ${text}.`)
}

function readCa(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new UsageError(`Cannot read ${file} (--relay-ca): ${(error as NodeJS.ErrnoException).code}.`)
  }
}
