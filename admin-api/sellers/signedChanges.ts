import { type Payout, payoutFor } from '../../core/domain/link.ts'
import type { ChainName } from '../../core/domain/network.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { canonicalAddress, takeText, withProof } from './walletText.ts'

export interface Signer {
  readonly chain: ChainName
  readonly address: string
}

/** The wallets that sign in to a store, in the form of their chain. Empty for a store that the operator opened. */
export const signInWallets = async (api: Api, { id }: Store): Promise<Signer[]> =>
  (await api.stores.walletsOf(id)).map(({ chain, address }) => ({
    chain,
    address: canonicalAddress(api, chain, address),
  }))

/** A change that a store's wallet has to sign. */
export interface SignedChange {
  /** The field of the profile that changes. Its proof is in `payoutProof` or `usernameProof`. */
  readonly field: 'payout' | 'username'
  /** The statement that the wallet signs. It describes the change exactly. */
  readonly statement: string
  /** One of these wallets has to sign. */
  readonly signers: readonly Signer[]
}

/** A client's proof of a change. It is the text that the client was given, and the wallet's signature. */
interface StoreProof {
  readonly message: string
  readonly signature: string
}

/**
 * Applies a change that the store's wallet has signed. An API key is not enough, because scripts and servers store keys, and a
 * stolen key could redirect every later sale. The change uses up the text unless `save` fails.
 *
 * @throws `WALLET_SIGNATURE_REQUIRED` without a proof
 * @throws `NONCE_EXPIRED` for a text that describes another change, `INVALID_SIGNATURE`, `CHAIN_UNAVAILABLE`
 */
export async function withStoreProof<T>(
  api: Api,
  { field, statement, signers }: SignedChange,
  proof: StoreProof | undefined,
  save: () => Promise<T>,
): Promise<T> {
  const path = `/api/v1/profile/${field}/nonce`
  if (proof === undefined) {
    const wallets = signers.map(({ chain, address }) => `${address} (${chain})`).join(' or ')
    throw new TollgateError(
      'WALLET_SIGNATURE_REQUIRED',
      `A change of ${field} needs a signature by the store's wallet ${wallets}, not only the API key. POST the same ${field} to ${path}, sign the message in the response, and repeat this request with ${field}Proof: {"message", "signature"}.`,
    )
  }
  const text = await takeText(api, proof.message, statement)
  const isSigner = signers.some(({ chain, address }) => chain === text?.chain && address === text.address)
  if (text === undefined || !isSigner) {
    throw new TollgateError(
      'NONCE_EXPIRED',
      `The signed text is unknown, used, older than five minutes, or of another change. POST this ${field} to ${path} and sign the message in the response.`,
    )
  }
  return withProof(api, text, proof.signature, save)
}

const chains = ['base', 'solana'] as const satisfies readonly ChainName[]

/** Whether a payout wallet is on one of the networks that links accept. */
export const canBePaid = (api: Pick<Api, 'assets'>, payout: Payout): boolean =>
  api.assets.some((asset) => payoutFor(payout, asset.network) !== null)

/** A change of payout wallets, with only the chains that change. */
export interface PayoutChange {
  readonly from: Partial<Payout>
  readonly to: Partial<Payout>
}

/**
 * Reads the sent payout wallets.
 *
 * @returns undefined if they equal the current ones
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

/** The statement that a wallet signs for a change of payout. It describes the change exactly. */
export function payoutStatement({ username }: Pick<Store, 'username'>, { from, to }: PayoutChange): string {
  const changes = chains
    .filter((chain) => to[chain] !== undefined)
    .map((chain) => `On ${chain}: from ${from[chain] ?? 'no wallet'} to ${to[chain] ?? 'no wallet'}.`)
  return `Change where buyers pay the store @${username}. ${changes.join(' ')} Its sales are paid there from then on. Signing costs nothing.`
}

/**
 * The wallets whose signature allows a change. These are the wallets that sign in to the store. For a store that the operator
 * opened, it is the current payout wallet on that chain. If there is no such wallet, only the operator can make the change.
 *
 * @throws `FORBIDDEN` with advice for the seller
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
      `No wallet can sign this change, because your store has neither a sign-in wallet nor a payout wallet on ${chain}. Ask the operator to set one with: tollgate store payout ${store.username} --${chain} ADDRESS.`,
    )
  }
  throw new TollgateError(
    'FORBIDDEN',
    'No wallet can sign for both chains at once, because your store has no sign-in wallet. Change one chain at a time, each signed by its current payout wallet.',
  )
}
