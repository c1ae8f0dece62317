import { canonicalAddress } from '../../core/domain/address.ts'
import { type ChainFamily, familyOf, type NetworkId, networkOfV1Name } from '../../core/domain/network.ts'
import { own } from '../../core/x402/strictJson.ts'
import type { Buyer } from '../buyer.ts'
import { HttpFailure } from '../httpCall.ts'
import type { Wallets } from '../payOptions.ts'
import { UsageError } from '../usageError.ts'
import { type CheckPayment, createOrderedBuyer } from './orderedBuyer.ts'
import { type OrderOptions, orderFromVault } from './orderFromVault.ts'
import { type AskVault, codeOf, refusalOf, type VaultAnswer, VaultRefusal } from './vaultClient.ts'

export interface VaultWalletOptions extends OrderOptions {
  /** Only the wallet of this network. */
  readonly network?: NetworkId
  readonly rpcUrl?: string
  /** What comes back signed is believed only by it. */
  readonly check: CheckPayment
  readonly signal: AbortSignal
}

/**
 * The wallets of a vault that this agent may pay from, one a chain family. They hold no key: each payment is ordered from
 * the vault.
 *
 * @throws {VaultRefusal} the vault is away or locked, or gives this agent no wallet   @throws {UsageError} wrong token
 */
export async function loadVaultWallets(ask: AskVault, options: VaultWalletOptions): Promise<Wallets> {
  const { network: only, rpcUrl, check, signal } = options
  const chains = own((await get(ask, '/v1/capabilities', signal)).body, 'chains')
  const wanted = (Array.isArray(chains) ? chains : [])
    // The vault's names of chains are those of x402 version 1.
    .map((chain) => ({ chain: String(chain), network: networkOfV1Name(String(chain)) }))
    .filter(({ network }) => network !== undefined && (only === undefined || network === only))
  const found = await Promise.all(
    wanted.map(async ({ chain, network }) => ({
      network: network!,
      address: await addressOn(ask, chain, network!, signal),
    })),
  )
  const wallets: Partial<Record<ChainFamily, Buyer>> = {}
  for (const family of ['eip155', 'solana'] as const satisfies readonly ChainFamily[]) {
    const ours = found.filter(({ network, address }) => address !== undefined && familyOf(network) === family)
    const address = ours[0]?.address
    if (address === undefined) continue
    const networks = ours.filter((one) => one.address === address).map(({ network }) => network)
    wallets[family] = createOrderedBuyer({
      address,
      networks: new Set(networks),
      ...(rpcUrl !== undefined && { rpcUrl }),
      check,
      order: (terms, order, until) => orderFromVault(ask, terms, order, until, options),
    })
  }
  if (Object.keys(wallets).length > 0) return wallets
  throw new VaultRefusal(
    'vault_refused',
    `The vault gives this agent no wallet${only === undefined ? '' : ` on ${only}`}. Its owner can add a scope such as wallet.base. Nothing was paid.`,
  )
}

/** Undefined when the agent has no grant for this chain. */
async function addressOn(
  ask: AskVault,
  chain: string,
  network: NetworkId,
  signal: AbortSignal,
): Promise<string | undefined> {
  const answer = await get(ask, `/address/${chain}`, signal, 'SCOPE_DENIED')
  if (codeOf(answer) === 'SCOPE_DENIED') return undefined
  const address = own(answer.body, 'address')
  const canonical = canonicalAddress(familyOf(network) ?? 'eip155', address)
  if (canonical !== undefined && canonical === address) return canonical
  throw new VaultRefusal('vault_away', 'What answers is no vault: it named no address. Nothing was paid.')
}

async function get(
  ask: AskVault,
  path: string,
  signal: AbortSignal,
  expected?: string,
): Promise<VaultAnswer> {
  const answer = await ask({ method: 'GET', path, signal }).catch((error: unknown) => {
    if (!(error instanceof HttpFailure)) throw error
    throw new VaultRefusal(
      'vault_away',
      `The vault could not be reached: ${error.message}. Nothing was paid.`,
    )
  })
  if (answer.status === 200 || (expected !== undefined && codeOf(answer) === expected)) return answer
  if (answer.status === 401)
    throw new UsageError(
      'The vault does not know this agent. Expected its token in --vault-token-file or TOLLGATE_VAULT_TOKEN.',
    )
  throw refusalOf(answer)
}
