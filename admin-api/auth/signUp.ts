import type { SignInNonce } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { apiKeyFrom } from './apiKey.ts'
import { canonicalAddress, storedAddress } from './canonicalAddress.ts'
import { openStore, type Proven, type SignedUp, type SignUpPorts, type SignUpRequest } from './openStore.ts'
import { messageHashOf, nonceIn } from './signInText.ts'
import { reservedUsername } from './username.ts'

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
export async function signUp(ports: SignUpPorts, request: SignUpRequest): Promise<SignedUp> {
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
  const keyHash = ports.hashOf(apiKey)
  return finish(ports, request, {
    chain: request.chain,
    wallet,
    canonical,
    apiKey,
    keyHash,
    nonce,
    messageHash,
  })
}

/** Proves and opens. Whatever goes wrong that is not the signature's fault leaves the nonce usable. */
async function finish(ports: SignUpPorts, request: SignUpRequest, proven: Proven): Promise<SignedUp> {
  try {
    await prove(ports, request, proven.canonical)
    const result = await openStore(ports, request, proven)
    await ports.nonces.rememberSignup(proven.messageHash, result.store.id, proven.nonce.expiresAtMs)
    return result
  } catch (error) {
    if (!isTollgateError(error) || error.code !== 'INVALID_SIGNATURE') await ports.nonces.add(proven.nonce)
    throw error
  }
}

/** The answer of an earlier sign-up with the same signed text, while its nonce would have lived. */
async function repeatedSignUp(
  ports: SignUpPorts,
  request: SignUpRequest,
  canonical: string,
  messageHash: string,
): Promise<SignedUp | undefined> {
  const storeId = await ports.nonces.signupOf(messageHash, ports.clock.now())
  if (storeId === undefined) return
  await prove(ports, request, canonical)
  const store = await ports.stores.byWallet(request.chain, storedAddress(request.chain, canonical))
  const apiKey = keyOf(ports, messageHash)
  const key = await ports.keys.byHash(ports.hashOf(apiKey))
  if (store?.id !== storeId || key === undefined || !key.isActive) throw nonceExpired()
  // A store and its first key are one commit, with one time.
  return { store, apiKey, created: key.createdAtMs === store.createdAtMs }
}

/** The stored nonce, used up; undefined when it does not fit what was sent in every respect. */
async function takeNonce(
  ports: SignUpPorts,
  request: SignUpRequest,
  canonical: string,
): Promise<SignInNonce | undefined> {
  const text = nonceIn(request.message)
  const nonce = text === undefined ? undefined : await ports.nonces.take(text)
  if (nonce === undefined || nonce.expiresAtMs <= ports.clock.now()) return
  const fits =
    nonce.message === request.message && nonce.chain === request.chain && nonce.address === canonical
  return fits ? nonce : undefined
}

async function prove(ports: SignUpPorts, request: SignUpRequest, canonical: string): Promise<void> {
  const { chain, message, signature } = request
  let isProof: boolean
  try {
    isProof = await ports.walletProofs.verifyMessage(chain, canonical, message, signature)
  } catch (cause) {
    throw new TollgateError('CHAIN_UNAVAILABLE', 'The wallet could not be checked on chain; try again.', {
      cause,
    })
  }
  if (isProof) return
  throw new TollgateError(
    'INVALID_SIGNATURE',
    'The signature is not one of this address over this message. Ask for a new nonce and sign its message unchanged.',
  )
}

/** A name that can't be had is refused before the nonce is used up; the store's unique index has the last word. */
async function refuseUsername(ports: SignUpPorts, request: SignUpRequest, wallet: string): Promise<void> {
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
