import type { ChainName } from '../../core/domain/network.ts'
import type { Store } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import { createStore, type StoreNames } from '../agent/openStore.ts'
import { canonicalAddress, storedAddress, takeText, withProof } from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { reservedUsername } from '../stores/username.ts'

/** What a wallet signs to sign in with a browser; good for no API key. */
export const signInStatement = 'Sign in to your dashboard. This costs nothing and moves no money.'

export interface SignInRequest extends StoreNames {
  readonly address: string
  readonly chain: ChainName
  readonly message: string
  readonly signature: string
  /** Makes a store for a wallet that has none. */
  readonly openStore?: boolean
}

export interface SignedIn {
  readonly store: Store
  readonly wallet: { readonly chain: ChainName; readonly address: string }
  readonly created: boolean
}

/**
 * The store of a wallet that signed the text of the nonce step, or a new one where that was asked for; no API key is made.
 * What is refused leaves the text good for another try, but for a signature that is not the wallet's.
 *
 * @throws `INVALID_ADDRESS`, `NONCE_EXPIRED`, `INVALID_SIGNATURE`, `CHAIN_UNAVAILABLE`, `USERNAME_TAKEN`; `STORE_NOT_FOUND`
 *   when the wallet has no store and none was asked for
 */
export async function signIn(api: Api, request: SignInRequest): Promise<SignedIn> {
  const { chain, message, signature, username } = request
  const canonical = canonicalAddress(api, chain, request.address)
  if (username != null && api.isReservedUsername(username)) throw reservedUsername()
  const text = await takeText(api, message, signInStatement)
  if (text?.chain !== chain || text.address !== canonical) {
    throw new TollgateError(
      'NONCE_EXPIRED',
      'The sign-in text is unknown, used or older than five minutes. Ask for a new one and sign it.',
    )
  }
  const wallet = { chain, address: storedAddress(chain, canonical) }
  return withProof(api, text, signature, async () => {
    const known = await api.stores.byWallet(chain, wallet.address)
    if (known !== undefined) return { store: known, wallet, created: false }
    if (request.openStore !== true) throw new TollgateError('STORE_NOT_FOUND')
    const proven = { chain, canonical, wallet: wallet.address }
    const made = await createStore(api, request, proven, () => null).catch(async (error: unknown) => {
      if (!isTollgateError(error) || error.code !== 'CONFLICT') throw error
      // Somebody else signed up with this wallet meanwhile: one store a wallet.
      return { store: (await api.stores.byWallet(chain, wallet.address))!, created: false }
    })
    return { created: true, ...made, wallet }
  })
}
