import { createHash, randomBytes } from 'node:crypto'
import type { ChainName } from '../../core/domain/network.ts'
import type { SignInNonce } from '../../core/domain/store.ts'
import { isTollgateError, TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'

/** How long a text that was handed out can be used, in ms. */
export const TEXT_LIFE_MS = 5 * 60_000

type Ports = Pick<Api, 'walletProofs' | 'nonces' | 'clock' | 'publicUrl'>

/**
 * Hands out a text for a wallet to sign (EIP-4361 on Base, its like on Solana): good for one use within
 * {@link TEXT_LIFE_MS}, and for nothing but what its statement says.
 *
 * @param address in its canonical form
 * @param statement one line of plain words; what they say is what the signature allows
 */
export async function handOutText(
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
 * The text as it was handed out, used up by this; undefined when it is unknown, used, too old, changed, or says anything
 * but the statement. It is written anew for that: what a client sends is never read but for the nonce.
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
 * Proves the signature of a text that was taken, and does what it allows. Whatever goes wrong that is not the signature's
 * fault leaves the text usable.
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

/** @throws `INVALID_SIGNATURE`; `CHAIN_UNAVAILABLE` when a contract wallet could not be asked */
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

export const messageHashOf = (message: string): string => createHash('sha256').update(message).digest('hex')

/**
 * The address in its canonical form.
 *
 * @param path the field that the address was sent in
 * @throws `INVALID_ADDRESS` when it is not one of the chain
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
  const message = `This is not an address on ${chain}; expected ${expected}.`
  throw new TollgateError('INVALID_ADDRESS', message, { details: [{ path, code: 'format', message }] })
}

/** The form under which a wallet is stored: EVM in lower case, because the checksum is only a spelling. */
export const storedAddress = (chain: ChainName, canonical: string): string =>
  chain === 'base' ? canonical.toLowerCase() : canonical
