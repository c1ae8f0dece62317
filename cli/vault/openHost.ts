import { createEgress } from '../../adapters/egress/createEgress.ts'
import type { Egress } from '../../core/ports/egress.ts'
import type { Log } from '../../core/ports/log.ts'
import type { AuditLimits } from '../../vault/audit/dropOld.ts'
import { type AssetTable, pinnedAssets } from '../../vault/effects/assets.ts'
import type { VaultChain } from '../../vault/effects/chains.ts'
import { createVaultApi } from '../../vault/host/createVaultApi.ts'
import type { VaultPluginEntry } from '../../vault/host/programs.ts'
import type { VaultApi } from '../../vault/host/vaultApi.ts'
import { createRemoteAccess, type RemoteAccess } from '../../vault/http/remoteAccess.ts'
import chainEvm from '../../vault/plugins/chain-evm/index.ts'
import chainSolana from '../../vault/plugins/chain-solana/index.ts'
import { systemVaultClock } from '../../vault/ports/clock.ts'
import type { Vault } from '../../vault/ports/vault.ts'
import { openVault } from '../../vault/storage/openVault.ts'
import type { Output } from '../output/createOutput.ts'
import { createPaymentRpc, type OwnChain } from './paymentRpc.ts'

export interface OpenHostOptions {
  readonly home: string
  readonly password?: string | undefined
  /** Chains for testing beside the real ones. */
  readonly testnets?: boolean
  /** The pinned assets and chains, and the owner's own. Default: the pinned ones. */
  readonly assets?: AssetTable
  /** Offered beside the others. */
  readonly ownChains?: readonly OwnChain[]
  readonly relay?: string | undefined
  readonly relayCa?: string | undefined
  /** Node for payments on Solana; default: the public one. */
  readonly solanaRpc?: string | undefined
  readonly idleLockMs?: number | undefined
  readonly maxAgeMs?: number | undefined
  /** How much of the log is kept; left out, all of it. */
  readonly logLimits?: AuditLimits
  readonly plugins?: readonly VaultPluginEntry[]
  /** Ranges that are not public and that plugins may connect to. */
  readonly pluginCidrs?: readonly string[]
  readonly localUrl: () => string
  readonly log: Log
}

export interface OpenHost {
  readonly api: VaultApi
  readonly vault: Vault
  close(): Promise<void>
}

const chains: readonly VaultChain[] = ['solana', 'base', 'ethereum']
const testChains: readonly VaultChain[] = ['base-sepolia', 'solana-devnet']

/**
 * Opens a vault's folder for this process and puts its host together; unlocked when a password is given.
 *
 * @throws {VaultError} `VAULT_NOT_FOUND`, `VAULT_IN_USE`, `VAULT_CORRUPT`, `BAD_PASSWORD`, `RATE_LIMIT_EXCEEDED`
 */
export async function openHost(options: OpenHostOptions): Promise<OpenHost> {
  const { home, password, log, relay } = options
  const vault = await openVault({
    home,
    ...(options.logLimits !== undefined && { logLimits: options.logLimits }),
    autoLock: {
      ...(options.idleLockMs !== undefined && { idleMs: options.idleLockMs }),
      ...(options.maxAgeMs !== undefined && { maxAgeMs: options.maxAgeMs }),
    },
  })
  const { assets = pinnedAssets, ownChains = [] } = options
  const waysOut = new Map<string, Egress>()
  let remote: RemoteAccess | undefined
  try {
    if (password !== undefined) await vault.unlock(password)
    if (relay !== undefined)
      remote = createRemoteAccess({
        vault,
        relay,
        ...(options.relayCa !== undefined && { ca: options.relayCa }),
        clock: systemVaultClock,
        log,
      })
    const api = await createVaultApi({
      vault,
      chains: [chainEvm, chainSolana],
      enabled: [
        ...chains,
        ...(options.testnets === true ? testChains : []),
        ...ownChains.map(({ name }) => name),
      ],
      assets,
      rpc: createPaymentRpc(options.solanaRpc, assets.chains, ownChains),
      egress: (ranges) => wayOut(waysOut, ranges, log),
      pluginEgress: wayOut(waysOut, options.pluginCidrs ?? [], log),
      plugins: options.plugins ?? [],
      clock: systemVaultClock,
      log,
      localUrl: options.localUrl,
      ...(remote !== undefined && { pairings: remote.pairings }),
    })
    await remote?.attach(api)
    return {
      api,
      vault,
      async close() {
        await remote?.close()
        await api.close()
        await Promise.all([...waysOut.values()].map((way) => way.close()))
      },
    }
  } catch (error) {
    await remote?.close()
    await vault.close()
    throw error
  }
}

/** One way out for each list of ranges: connections of one credential's rule are not another's. */
function wayOut(known: Map<string, Egress>, ranges: readonly string[], log: Log): Egress {
  const key = [...ranges].sort().join(' ')
  let way = known.get(key)
  if (way === undefined) known.set(key, (way = createEgress({ allowPrivateCidrs: ranges, log })))
  return way
}

/** The agent that requests without a token count as, with `--insecure-no-token`. */
export const tokenlessAgent = 'no-token'
const tokenlessScopes = [
  'identity.*',
  'address.*',
  'preferences.*',
  'custom.*',
  'wallet.*',
  'credentials.*',
] as const

/** Makes the agent of `--insecure-no-token` where it is not there, and warns. */
export async function letTokenlessIn({ registry }: VaultApi, output: Output): Promise<void> {
  output.warn(
    `--insecure-no-token: every program on this machine can use this vault as the agent ${tokenlessAgent}. For test suites only.`,
  )
  if (registry.byName(tokenlessAgent)?.revokedAt !== null)
    await registry.add({ name: tokenlessAgent, scopes: tokenlessScopes })
}
