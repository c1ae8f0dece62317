import { canonicalAddress } from '../domain/address.ts'
import { chainNameOf, familyOf, type NetworkId } from '../domain/network.ts'
import { decodeHeader } from './header.ts'
import { own } from './strictJson.ts'

/** Name of the extension with which a wallet signs in, and of the request header with the signature. */
export const signInName = 'sign-in-with-x'

/** The fields of the text that a wallet signs, except its address and network (EIP-4361; the names are those of CAIP-122). */
export interface SignInInfo {
  /** Host and port of the service. */
  readonly domain: string
  /** The address that the wallet signs in to. */
  readonly uri: string
  readonly statement: string
  readonly version: '1'
  readonly nonce: string
  /** ISO 8601, like `expirationTime`. */
  readonly issuedAt: string
  readonly expirationTime: string
}

/** The header's JSON Schema. It names only the fields, because every 402 transfers it and every payment sends it back. */
const text = { type: 'string' } as const
const schema = {
  type: 'object',
  properties: { address: text, chainId: text, type: text, signature: text },
  required: ['address', 'chainId', 'type', 'signature'],
} as const

const typeOf = (network: NetworkId): 'ed25519' | 'eip191' =>
  familyOf(network) === 'solana' ? 'ed25519' : 'eip191'

/**
 * The extension in a 402.
 *
 * @param networks the networks whose wallets can sign in, in the order of the offer
 * @see https://github.com/x402-foundation/x402/blob/main/specs/extensions/sign-in-with-x.md
 */
export const signInOffer = (info: SignInInfo, networks: readonly NetworkId[]) => ({
  info,
  supportedChains: networks.map((chainId) => ({ chainId, type: typeOf(chainId) })),
  schema,
})

/** A sign-in as a client sends it. Nothing in it is proven. */
export interface SignInProof {
  readonly domain: string
  readonly uri: string
  readonly nonce: string
  readonly issuedAt: string
  readonly network: NetworkId
  /** The address in the spelling that Tollgate stores. */
  readonly address: string
  readonly signature: string
}

export type ReadSignIn =
  | { readonly ok: true; readonly proof: SignInProof }
  | { readonly ok: false; readonly message: string }

const fields = ['domain', 'uri', 'nonce', 'issuedAt', 'chainId', 'type', 'address', 'signature'] as const

/**
 * Reads the header `SIGN-IN-WITH-X`, which is base64 of JSON. The optional fields are not read, because the text that the wallet
 * has signed is made from the offer. Never throws.
 *
 * @returns the sign-in, or a message with what was expected. The message never repeats the header
 */
export function readSignIn(header: string): ReadSignIn {
  const decoded = decodeHeader(header)
  if (!decoded.ok) return no(decoded.message)
  const found = Object.fromEntries(fields.map((name) => [name, own(decoded.value, name)]))
  const missing = fields.find((name) => typeof found[name] !== 'string')
  if (missing !== undefined) return no(`Expected the field ${missing} as a string.`)
  const { domain, uri, nonce, issuedAt, chainId, type, address, signature } = found as Record<string, string>
  const family = familyOf(chainId!)
  if (family === undefined) return no('Expected chainId as in supportedChains, such as eip155:8453.')
  const network = chainId as NetworkId
  if (type !== typeOf(network)) return no(`Expected type ${typeOf(network)} for this chainId.`)
  const canonical = canonicalAddress(family, address)
  if (canonical === undefined) return no(`Expected address as an address on ${chainNameOf(network)}.`)
  return {
    ok: true,
    proof: {
      domain: domain!,
      uri: uri!,
      nonce: nonce!,
      issuedAt: issuedAt!,
      network,
      address: canonical,
      signature: signature!,
    },
  }
}

const no = (message: string): ReadSignIn => ({
  ok: false,
  message: `The header SIGN-IN-WITH-X cannot be read. ${message}`,
})
