import type { SignInNonce } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import { apiKeyFrom } from '../auth/apiKey.ts'
import {
  canonicalAddress,
  messageHashOf,
  proveWallet,
  storedAddress,
  takeText,
  withProof,
} from '../auth/walletText.ts'
import type { Api } from '../deps.ts'
import { reservedUsername } from '../stores/username.ts'
import { openStore, type SignedUp, type SignUpRequest } from './openStore.ts'

/** What a wallet signs to sign up. */
export const signUpStatement = 'Sign in to open your store. This costs nothing and moves no money.'

/**
 * Opens a store for a wallet that signed the text of the nonce step, or adds a key to the store it has.
 *
 * A client that heard no answer sends the same request again, maybe while the first is still at work. It must get the
 * same store, and a key that works, although the nonce is used up and a key is never stored. So the key is not drawn
 * but derived: a MAC, under the server's secret, of the signed text with its one-time nonce. Whoever presents that text
 * and its signature again, while the nonce would have lived, is told the same key; nobody else can compute it.
 *
 * @throws `INVALID_ADDRESS`, `NONCE_EXPIRED`, `INVALID_SIGNATURE`, `USERNAME_TAKEN`, `LIMIT_REACHED` (five active keys),
 *   `CHAIN_UNAVAILABLE` (a contract wallet could not be asked; the same signature can be sent again)
 */
export async function signUp(ports: Api, request: SignUpRequest): Promise<SignedUp> {
  const canonical = canonicalAddress(ports, request.chain, request.address)
  const messageHash = messageHashOf(request.message)
  const wallet = storedAddress(request.chain, canonical)
  await refuseUsername(ports, request, wallet)
  const again = await repeatedSignUp(ports, request, canonical, messageHash)
  if (again !== undefined) return again

  const nonce = await takeNonce(ports, request, canonical)
  if (nonce === undefined) {
    // The same request may just have finished, here or in another process.
    const late = await repeatedSignUp(ports, request, canonical, messageHash)
    if (late !== undefined) return late
    throw nonceExpired()
  }
  const apiKey = keyOf(ports, messageHash)
  const keyHash = ports.keyRing.hashOf(apiKey)
  const { chain, signature } = request
  return withProof(ports, nonce, signature, async () => {
    const proven = { chain, wallet, canonical, apiKey, keyHash }
    const result = await openStore(ports, request, proven)
    await ports.nonces.rememberSignup(messageHash, result.store.id, nonce.expiresAtMs)
    return result
  })
}

/** The answer of an earlier sign-up with the same signed text, while its nonce would have lived. */
async function repeatedSignUp(
  ports: Api,
  request: SignUpRequest,
  canonical: string,
  messageHash: string,
): Promise<SignedUp | undefined> {
  const storeId = await ports.nonces.signupOf(messageHash, ports.clock.now())
  if (storeId === undefined) return
  await proveWallet(ports, { chain: request.chain, address: canonical }, request.message, request.signature)
  const store = await ports.stores.byWallet(request.chain, storedAddress(request.chain, canonical))
  const apiKey = keyOf(ports, messageHash)
  const key = await ports.keys.byHash(ports.keyRing.hashOf(apiKey))
  if (store?.id !== storeId || key === undefined || !key.isActive) throw nonceExpired()
  // A store and its first key are one commit, with one time.
  return { store, apiKey, created: key.createdAtMs === store.createdAtMs }
}

/** The stored nonce, used up; undefined when it does not fit what was sent in every respect. */
async function takeNonce(
  ports: Api,
  request: SignUpRequest,
  canonical: string,
): Promise<SignInNonce | undefined> {
  const nonce = await takeText(ports, request.message, signUpStatement)
  return nonce?.chain === request.chain && nonce.address === canonical ? nonce : undefined
}

/** A name that can't be had is refused before the nonce is used up; the store's unique index has the last word. */
async function refuseUsername(ports: Api, request: SignUpRequest, wallet: string): Promise<void> {
  const { username, chain } = request
  if (username == null) return
  if (ports.isReservedUsername(username)) throw reservedUsername()
  const holder = await ports.stores.byUsername(username)
  if (holder === undefined) return
  // A wallet that has a store already signs in to it, whatever name it asks for.
  if ((await ports.stores.byWallet(chain, wallet)) === undefined) throw new TollgateError('USERNAME_TAKEN')
}

const keyOf = (ports: Pick<Api, 'sealer'>, messageHash: string): string =>
  apiKeyFrom(ports.sealer.mac('signup-api-key', messageHash))

const nonceExpired = (): TollgateError =>
  new TollgateError(
    'NONCE_EXPIRED',
    'The sign-in text is unknown, used or older than five minutes. Ask for a new nonce and sign its message.',
  )
