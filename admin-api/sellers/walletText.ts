import { createHash, randomBytes } from 'node:crypto'
import type { ChainName } from '../../core/domain/network.ts'
import type { SignInNonce } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { bodyField } from '../http/fields.ts'
import { exactly, field } from '../http/responses.ts'

/** How long a text is valid, in ms. */
export const TEXT_LIFE_MS = 5 * 60_000

/** The request for a text to sign, and its response. */
export const signTextBody = {
  type: 'object',
  additionalProperties: false,
  required: ['address', 'chain'],
  properties: { address: bodyField.wallet, chain: bodyField.chain },
} as const

export const signTextResponse = exactly({
  nonce: field.text(),
  message: field.text('Sign exactly this.'),
  expiresAt: field.time,
})

type Ports = Pick<Api, 'walletProofs' | 'nonces' | 'clock' | 'publicUrl'>

/**
 * Creates a text for a wallet to sign (EIP-4361 on Base, its equivalent on Solana). The text is valid once within
 * {@link TEXT_LIFE_MS}, and only for the action that its statement describes.
 *
 * @param address in canonical form
 * @param statement one line of plain text that describes the action that the signature allows
 */
export async function issueSignInText(
  ports: Ports,
  { chain, address, statement }: { chain: ChainName; address: string; statement: string },
): Promise<SignInNonce> {
  const nonce = randomBytes(16).toString('hex')
  const expiresAtMs = ports.clock.now() + TEXT_LIFE_MS
  const blank = { nonce, chain, address, expiresAtMs }
  const text = { ...blank, message: textOf(ports, blank, statement) }
  await ports.nonces.add(text)
  return text
}

/**
 * Uses up a text. Undefined if the text is unknown, used, expired, changed, or has another statement. The function composes the
 * text again for the comparison, so it takes only the nonce from the client's text.
 */
export async function takeText(
  ports: Ports,
  message: string,
  statement: string,
): Promise<SignInNonce | undefined> {
  const name = /^Nonce: ([A-Za-z0-9]{8,64})$/m.exec(message)?.[1]
  const text = name === undefined ? undefined : await ports.nonces.take(name)
  if (text === undefined || text.expiresAtMs <= ports.clock.now()) return
  return message === text.message && message === textOf(ports, text, statement) ? text : undefined
}

const textOf = (
  { walletProofs, publicUrl }: Ports,
  { nonce, chain, address, expiresAtMs }: Omit<SignInNonce, 'message'>,
  statement: string,
): string =>
  walletProofs.signInMessage({
    chain,
    address,
    domain: new URL(publicUrl).host,
    uri: publicUrl,
    statement,
    nonce,
    issuedAtMs: expiresAtMs - TEXT_LIFE_MS,
    expiresAtMs,
  })

/**
 * Verifies the signature of a text that {@link takeText} has used up, and then runs `work`. After any failure other than an invalid
 * signature, the text can be used again.
 *
 * @throws `INVALID_SIGNATURE`, `CHAIN_UNAVAILABLE`, and what `work` throws
 */
export async function withProof<T>(
  ports: Ports,
  text: SignInNonce,
  signature: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    await proveWallet(ports, text, text.message, signature)
    return await work()
  } catch (error) {
    if (!isTollgateError(error) || error.code !== 'INVALID_SIGNATURE') await ports.nonces.add(text)
    throw error
  }
}

/** @throws `INVALID_SIGNATURE`; `CHAIN_UNAVAILABLE` if a contract wallet could not be queried */
export async function proveWallet(
  { walletProofs }: Pick<Api, 'walletProofs'>,
  wallet: { readonly chain: ChainName; readonly address: string },
  message: string,
  signature: string,
): Promise<void> {
  let isProof: boolean
  try {
    isProof = await walletProofs.verifyMessage(wallet.chain, wallet.address, message, signature)
  } catch (cause) {
    throw new TollgateError('CHAIN_UNAVAILABLE', 'The wallet could not be verified on chain. Try again.', {
      cause,
    })
  }
  if (isProof) return
  throw new TollgateError(
    'INVALID_SIGNATURE',
    'Expected a signature of this message by this address. Request a new nonce and sign its message unchanged.',
  )
}

export const messageHashOf = (message: string): string => createHash('sha256').update(message).digest('hex')

/**
 * The address in the one form that its chain defines.
 *
 * @param path the field that the address was sent in
 * @throws `INVALID_ADDRESS` if it is not an address of the chain
 */
export function canonicalAddress(
  api: Pick<Api, 'walletProofs'>,
  chain: ChainName,
  address: string,
  path = 'address',
): string {
  const canonical = api.walletProofs.canonicalAddress(chain, address)
  if (canonical !== undefined) return canonical
  const expected = chain === 'base' ? '0x and 40 hex digits' : 'base58 of 32 bytes'
  const message = `Expected an address on ${chain}: ${expected}.`
  throw new TollgateError('INVALID_ADDRESS', message, { details: [{ path, code: 'format', message }] })
}

/** The form in which the database stores a wallet. EVM addresses are in lower case, because their case is only a checksum. */
export const storedAddress = (chain: ChainName, canonical: string): string =>
  chain === 'base' ? canonical.toLowerCase() : canonical
