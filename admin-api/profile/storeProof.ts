import type { ChainName } from '../../core/domain/network.ts'
import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { canonicalAddress, takeText, withProof } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'

export interface Signer {
  readonly chain: ChainName
  readonly address: string
}

/** The wallets that sign in to a store, in their canonical form; none where the operator opened it. */
export const signInWallets = async (api: Api, { id }: Store): Promise<Signer[]> =>
  (await api.stores.walletsOf(id)).map(({ chain, address }) => ({
    chain,
    address: canonicalAddress(api, chain, address),
  }))

/** A change that a store's wallet has to sign. */
export interface SignedChange {
  /** The field of the profile that changes; the client proves it in `payoutProof` or `usernameProof`. */
  readonly field: 'payout' | 'username'
  /** What the wallet signs: what it says is what happens, and nothing else does. */
  readonly statement: string
  /** One of them has to sign. */
  readonly signers: readonly Signer[]
}

/** What a client sends for a change: the text that it was given, and the wallet's signature of it. */
export interface StoreProof {
  readonly message: string
  readonly signature: string
}

/**
 * Makes a change that the store's wallet has signed. An API key is not enough: keys lie in scripts and on servers, and a thief
 * with one of them would take every later sale. Uses the text up, unless `save` fails.
 *
 * @throws `WALLET_SIGNATURE_REQUIRED` without a proof
 * @throws `NONCE_EXPIRED` for a text that is not of this very change, `INVALID_SIGNATURE`, `CHAIN_UNAVAILABLE`
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
      `A change of ${field} is signed by the store's wallet ${wallets}; the API key alone may not make it. POST the same ${field} to ${path}, sign the message of the answer, and send this request again with ${field}Proof: {"message", "signature"}.`,
    )
  }
  const text = await takeText(api, proof.message, statement)
  const isSigner = signers.some(({ chain, address }) => chain === text?.chain && address === text.address)
  if (text === undefined || !isSigner) {
    throw new TollgateError(
      'NONCE_EXPIRED',
      `The signed text is unknown, used, older than five minutes, or of another change. POST this ${field} to ${path} and sign the message of the answer.`,
    )
  }
  return withProof(api, text, proof.signature, save)
}
