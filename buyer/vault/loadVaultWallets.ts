import { canonicalAddress } from '../../core/domain/address.ts'
import { type ChainFamily, familyOf, type NetworkId, networkOfV1Name } from '../../core/domain/network.ts'
import { own } from '../../core/x402/strictJson.ts'
import { type Buyer, UsageError } from '../buyer.ts'
import { HttpFailure } from '../httpCall.ts'
import type { Wallets } from '../payOptions.ts'
import { type CheckPayment, createOrderedBuyer } from './orderedBuyer.ts'
import { type OrderOptions, orderFromVault } from './orderFromVault.ts'
import { type CallVault, codeOf, refusalOf, VaultRefusal, type VaultResponse } from './vaultClient.ts'

export interface VaultWalletOptions extends OrderOptions {
  /** The only network whose wallet is loaded. */
  readonly network?: NetworkId
  readonly rpcUrl?: string
  /** The check that a payment from the vault must pass. */
  readonly check: CheckPayment
  readonly signal: AbortSignal
}

/**
 * The wallets of a vault from which this agent may pay, one per chain family. They have no key, so each payment is ordered from the
 * vault.
 *
 * @throws {VaultRefusal} if the vault is unavailable or locked, or gives this agent no wallet
 * @throws {UsageError} if the token is wrong
 */
export async function loadVaultWallets(callVault: CallVault, options: VaultWalletOptions): Promise<Wallets> {
  const { network: only, rpcUrl, check, signal } = options
  const chains = own((await get(callVault, '/v1/capabilities', signal)).body, 'chains')
  const wanted = (Array.isArray(chains) ? chains : [])
    // The vault uses the chain names of x402 version 1.
    .map((chain) => ({ chain: String(chain), network: networkOfV1Name(String(chain)) }))
    .filter(({ network }) => network !== undefined && (only === undefined || network === only))
  const found = await Promise.all(
    wanted.map(async ({ chain, network }) => ({
      network: network!,
      address: await addressOn(callVault, chain, network!, signal),
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
      order: (terms, order, until) => orderFromVault(callVault, terms, order, until, options),
    })
  }
  if (Object.keys(wallets).length > 0) return wallets
  throw new VaultRefusal(
    'vault_refused',
    `The vault gives this agent no wallet${only === undefined ? '' : ` on ${only}`}. The vault's owner can add a scope such as wallet.base. Nothing was paid.`,
  )
}

/** The agent's address on a chain. Undefined if the agent has no grant for this chain. */
async function addressOn(
  callVault: CallVault,
  chain: string,
  network: NetworkId,
  signal: AbortSignal,
): Promise<string | undefined> {
  const response = await get(callVault, `/address/${chain}`, signal, 'SCOPE_DENIED')
  if (codeOf(response) === 'SCOPE_DENIED') return undefined
  const address = own(response.body, 'address')
  const canonical = canonicalAddress(familyOf(network) ?? 'eip155', address)
  if (canonical !== undefined && canonical === address) return canonical
  throw new VaultRefusal(
    'vault_unavailable',
    'The server is not a vault, because its response has no address. Nothing was paid.',
  )
}

async function get(
  callVault: CallVault,
  path: string,
  signal: AbortSignal,
  expected?: string,
): Promise<VaultResponse> {
  const response = await callVault({ method: 'GET', path, signal }).catch((error: unknown) => {
    if (!(error instanceof HttpFailure)) throw error
    throw new VaultRefusal(
      'vault_unavailable',
      `The vault could not be reached: ${error.message}. Nothing was paid.`,
    )
  })
  if (response.status === 200 || (expected !== undefined && codeOf(response) === expected)) return response
  if (response.status === 401)
    throw new UsageError(
      'The vault does not recognize this agent. Expected its token in --vault-token-file or TOLLGATE_VAULT_TOKEN.',
    )
  throw refusalOf(response)
}
