import { readFileSync } from 'node:fs'
import type { Environment } from '../../core/config/read/interpolate.ts'
import type { AuditLimits } from '../../vault/audit/dropOld.ts'
import { ownAssets } from '../../vault/config/ownAssets.ts'
import type { VaultConfig } from '../../vault/config/vaultConfigSchema.ts'
import type { AssetTable } from '../../vault/effects/assets.ts'
import type { VaultPluginEntry } from '../../vault/host/programs.ts'
import type { LocalAgentsOptions } from '../../vault/http/localAgents.ts'
import { relayUrl } from '../../vault/remote/relayUrl.ts'
import { UsageError } from '../output/exitCodes.ts'
import type { OwnChain } from './paymentRpc.ts'
import { wholeNumber } from './wholeNumber.ts'

/** The flags of `tollgate vault` that its configuration file may say, too. */
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

/** How a vault is run: what a flag says, else its configuration file, else the default. */
export interface ServeSettings {
  readonly host: string
  readonly port: number
  /** Undefined where the port for tokenless agents of this machine is closed. */
  readonly local: Omit<LocalAgentsOptions, 'host'> | undefined
  readonly testnets: boolean
  readonly relay: string | undefined
  /** PEM text. */
  readonly relayCa: string | undefined
  readonly solanaRpc: string | undefined
  /** The pinned chains and assets, and the owner's own. */
  readonly assets: AssetTable
  /** Chains of the owner's own, which are always offered, with the node of each Solana cluster. */
  readonly ownChains: readonly OwnChain[]
  readonly idleLockMs: number
  readonly maxAgeMs: number
  readonly logLimits: AuditLimits
  readonly plugins: readonly VaultPluginEntry[]
  /** Ranges that are not public and that plugins may connect to. */
  readonly pluginCidrs: readonly string[]
}

/** The chains and assets of a configuration, as a host takes them. */
export const ownSettings = (
  config: Pick<VaultConfig, 'chains' | 'assets'>,
): Pick<ServeSettings, 'assets' | 'ownChains'> => ({
  assets: ownAssets(config).assets,
  ownChains: config.chains.map(({ name, rpc }) => ({ name, rpc })),
})

/**
 * Reads the vault's configuration and lays the flags over it.
 *
 * @param warn is told what is allowed and probably not meant
 * @throws {ConfigError} for the file; {UsageError} for a flag
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
  const number = (name: string, flag: string | undefined, said: number, least: number, most: number) =>
    flag === undefined ? said : wholeNumber(name, flag, least, most)
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

/** What would only be found when the vault is unlocked and connects. @throws {UsageError} */
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
    throw new UsageError(`Can't read ${file} (--relay-ca): ${(error as NodeJS.ErrnoException).code}.`)
  }
}
