import { type Payout, payoutFor } from '../../core/domain/link.ts'
import type { ChainName } from '../../core/domain/network.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { canonicalAddress, takeText, withProof } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'

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
    const wallet = address === null ? null : canonicalAddress(api, chain, address)
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

export interface Signer {
  readonly chain: ChainName
  readonly address: string
}

/**
 * The wallets whose signature allows a change: those that sign in to the store. One that the operator opened has none;
 * there it is the wallet that is paid on that chain now, and where there is none either, nobody but the operator.
 *
 * @throws `FORBIDDEN` that says what to do instead
 */
export async function signersOf(api: Api, store: Store, { from, to }: PayoutChange): Promise<Signer[]> {
  const signIn = (await api.stores.walletsOf(store.id)).map(({ chain, address }) => ({
    chain,
    address: canonicalAddress(api, chain, address),
  }))
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

/** What a client sends for a change: the text that it was given, and the wallet's signature of it. */
export interface PayoutProof {
  readonly message: string
  readonly signature: string
}

/**
 * Makes a change that the store's wallet has signed. An API key is not enough: it lies in scripts and on servers, and
 * whoever takes it would take every sale from then on. Uses the text up, unless `save` fails.
 *
 * @throws `WALLET_SIGNATURE_REQUIRED` without a proof, `FORBIDDEN` where no wallet can give one
 * @throws `NONCE_EXPIRED` for a text that is not of this very change, `INVALID_SIGNATURE`, `CHAIN_UNAVAILABLE`
 */
export async function withPayoutProof<T>(
  api: Api,
  store: Store,
  change: PayoutChange,
  proof: PayoutProof | undefined,
  save: () => Promise<T>,
): Promise<T> {
  const signers = await signersOf(api, store, change)
  if (proof === undefined) throw signatureRequired(signers)
  const text = await takeText(api, proof.message, payoutStatement(store, change))
  const isSigner = signers.some(({ chain, address }) => chain === text?.chain && address === text.address)
  if (text === undefined || !isSigner) {
    throw new TollgateError(
      'NONCE_EXPIRED',
      'The signed text is unknown, used, older than five minutes, or of another change. POST this payout to /api/v1/profile/payout/nonce and sign the message of the answer.',
    )
  }
  return withProof(api, text, proof.signature, save)
}

function signatureRequired(signers: readonly Signer[]): TollgateError {
  const wallets = signers.map(({ chain, address }) => `${address} (${chain})`).join(' or ')
  return new TollgateError(
    'WALLET_SIGNATURE_REQUIRED',
    `A change of payout is signed by the store's wallet ${wallets}; the API key alone may not make it. POST the same payout to /api/v1/profile/payout/nonce, sign the message of the answer, and send this request again with payoutProof: {"message", "signature"}.`,
  )
}
