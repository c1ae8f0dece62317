import { createEgress } from '../../adapters/egress/egress.ts'
import type { Egress } from '../../core/ports/egress.ts'
import type { Log } from '../../core/ports/log.ts'
import type { AuditLimits } from '../../vault/audit/auditEntry.ts'
import { type AssetTable, pinnedAssets, type VaultChain } from '../../vault/effects/assets.ts'
import { createVaultApi, type VaultApi } from '../../vault/host/createVaultApi.ts'
import type { VaultPluginEntry } from '../../vault/host/pipelines.ts'
import { createRemoteAccess, type RemoteAccess } from '../../vault/http/remoteAccess.ts'
import chainEvm from '../../vault/plugins/chain-evm/index.ts'
import chainSolana from '../../vault/plugins/chain-solana/index.ts'
import { systemVaultClock } from '../../vault/ports/clock.ts'
import type { Vault } from '../../vault/ports/vault.ts'
import { openVault } from '../../vault/storage/localVault.ts'
import type { Output } from '../output/createOutput.ts'
import { createChargeRpc, createPaymentRpc, type OwnChain } from './paymentRpc.ts'

export interface OpenHostOptions {
  readonly home: string
  readonly password?: string | undefined
  /** True to offer test chains in addition to the real chains. */
  readonly testnets?: boolean
  /** The pinned assets and chains, and those of the owner. Default: only the pinned ones. */
  readonly assets?: AssetTable
  /** Chains that are offered in addition to the others. */
  readonly ownChains?: readonly OwnChain[]
  readonly relay?: string | undefined
  readonly relayCa?: string | undefined
  /** RPC node for payments on Solana. Default: the public node. */
  readonly solanaRpc?: string | undefined
  /** URLs of the owner's RPC nodes of EVM chains, by the chain's name. */
  readonly evmRpc?: Readonly<Record<string, string | undefined>>
  readonly idleLockMs?: number | undefined
  readonly maxAgeMs?: number | undefined
  /** How much of the log is kept. Default: all of it. */
  readonly logLimits?: AuditLimits
  readonly plugins?: readonly VaultPluginEntry[]
  /** Private address ranges that plugins may connect to. */
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
 * Opens a vault's folder for this process and creates its host, which is unlocked if a password is given.
 * @throws {VaultError} `VAULT_NOT_FOUND`, `VAULT_IN_USE`, `VAULT_CORRUPT`, `BAD_PASSWORD`,
 * `RATE_LIMIT_EXCEEDED`
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
  const egresses = new Map<string, Egress>()
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
      chargeRpc: createChargeRpc(options.evmRpc ?? {}, assets.chains, ownChains),
      egress: (ranges) => egressFor(egresses, ranges, log),
      pluginEgress: egressFor(egresses, options.pluginCidrs ?? [], log),
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
        await Promise.all([...egresses.values()].map((egress) => egress.close()))
      },
    }
  } catch (error) {
    await remote?.close()
    await vault.close()
    throw error
  }
}

/** Returns one egress per list of address ranges. Credentials with different ranges must not share connections. */
function egressFor(known: Map<string, Egress>, ranges: readonly string[], log: Log): Egress {
  const key = [...ranges].sort().join(' ')
  let egress = known.get(key)
  if (egress === undefined) known.set(key, (egress = createEgress({ allowPrivateCidrs: ranges, log })))
  return egress
}

/** Name of the agent as which requests without a token act, with `--insecure-no-token`. */
export const tokenlessAgent = 'no-token'
const tokenlessScopes = [
  'identity.*',
  'address.*',
  'preferences.*',
  'custom.*',
  'wallet.*',
  'credentials.*',
] as const

/** Creates the agent of `--insecure-no-token` if it is missing, and prints a warning. */
export async function allowTokenless({ registry }: VaultApi, output: Output): Promise<void> {
  output.warn(
    `With --insecure-no-token, every program on this machine can use this vault as the agent ${tokenlessAgent}. For test suites only.`,
  )
  if (registry.byName(tokenlessAgent)?.revokedAt !== null)
    await registry.add({ name: tokenlessAgent, scopes: tokenlessScopes })
}
