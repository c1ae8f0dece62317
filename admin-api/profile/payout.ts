import { type Payout, payoutFor } from '../../core/domain/link.ts'
import type { ChainName } from '../../core/domain/network.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { canonicalAddress } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { type Signer, signInWallets } from './storeProof.ts'

const chains = ['base', 'solana'] as const satisfies readonly ChainName[]

/** Whether a payout wallet fits one of the networks that can be paid on. */
export const canBePaid = (api: Pick<Api, 'assets'>, payout: Payout): boolean =>
  api.assets.some((asset) => payoutFor(payout, asset.network) !== null)

/** What becomes of the wallets that a store's sales are paid to: the chains on which it changes, and no other. */
export interface PayoutChange {
  readonly from: Partial<Payout>
  readonly to: Partial<Payout>
}

/**
 * Reads the wallets that were sent.
 *
 * @returns undefined when they are those that the store has
 * @throws `INVALID_ADDRESS`
 */
export function readPayoutChange(
  api: Pick<Api, 'walletProofs'>,
  { payout }: Store,
  given: Partial<Payout>,
): PayoutChange | undefined {
  const from: { -readonly [C in ChainName]?: string | null } = {}
  const to: { -readonly [C in ChainName]?: string | null } = {}
  for (const chain of chains) {
    const address = given[chain]
    if (address === undefined) continue
    const wallet = address === null ? null : canonicalAddress(api, chain, address, `payout.${chain}`)
    if (wallet === payout[chain]) continue
    from[chain] = payout[chain]
    to[chain] = wallet
  }
  return Object.keys(to).length === 0 ? undefined : { from, to }
}

/** What a wallet signs for a change: what it says is what happens, and nothing else does. */
export function payoutStatement({ username }: Pick<Store, 'username'>, { from, to }: PayoutChange): string {
  const changes = chains
    .filter((chain) => to[chain] !== undefined)
    .map((chain) => `On ${chain}: from ${from[chain] ?? 'no wallet'} to ${to[chain] ?? 'no wallet'}.`)
  return `Change where buyers pay the store @${username}. ${changes.join(' ')} Its sales are paid there from then on. Signing costs nothing.`
}

/**
 * The wallets whose signature allows a change: those that sign in to the store. One that the operator opened has none;
 * there it is the wallet that is paid on that chain now, and where there is none either, only the operator makes the change.
 *
 * @throws `FORBIDDEN` that says what to do instead
 */
export async function payoutSigners(api: Api, store: Store, { from, to }: PayoutChange): Promise<Signer[]> {
  const signIn = await signInWallets(api, store)
  if (signIn.length > 0) return signIn
  const changed = chains.filter((chain) => to[chain] !== undefined)
  const [chain] = changed
  if (chain !== undefined && changed.length === 1) {
    const address = from[chain]
    if (address != null) return [{ chain, address }]
    throw new TollgateError(
      'FORBIDDEN',
      `No wallet can sign for this: none signs in to your store, and none is paid on ${chain} yet. Ask the operator, who sets it with: tollgate store payout ${store.username} --${chain} ADDRESS.`,
    )
  }
  throw new TollgateError(
    'FORBIDDEN',
    'No wallet can sign for both chains at once: none signs in to your store. Change one chain, signed by the wallet that is paid there, and then the other.',
  )
}
