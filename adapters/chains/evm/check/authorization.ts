import { addressForm, keccak256 } from '../../../../core/evm/hex.ts'
import type { TokenPermit } from '../../../../core/evm/permit2.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import { refuse, refuseUnread } from '../../refusals.ts'
import { reasons } from '../reasons.ts'
import { type Secp256k1, secp256k1 } from '../settle/transaction.ts'

/**
 * A decimal number without leading zeros, of at most 78 digits. A number has one such spelling, so equal text means equal value.
 */
export const uintForm = /^(0|[1-9]\d{0,77})$/
const nonceForm = /^0x[0-9a-fA-F]{64}$/
const hexForm = /^0x(?:[0-9a-fA-F]{2})+$/
/** Longest signature in hex characters. A contract wallet may sign with a whole proof, but the 16 KiB header cannot carry more. */
const MAX_SIGNATURE_CHARS = 16_384

/**
 * A payer's signed permission to move tokens, with lower-case hex and decimal numbers. It is an authorization of EIP-3009 or, with
 * `permit2`, a permit of Permit2.
 */
export interface Authorization {
  readonly from: string
  readonly to: string
  /** The amount of the transfer. It is the highest amount in the scheme `upto`. */
  readonly value: string
  /** Seconds since 1970. The transfer must be later. With Permit2, this second is included. */
  readonly validAfter: string
  /** Seconds since 1970. The transfer must be earlier. With Permit2, this second is included. */
  readonly validBefore: string
  /** 32 bytes in hex with 0x, or a decimal number with Permit2. */
  readonly nonce: string
  /** 65 bytes for a plain account, any length for a contract wallet (ERC-1271, ERC-6492). */
  readonly signature: string
  readonly permit2?: Permit2Part
}

/** The parts of a permit of Permit2 that an authorization of EIP-3009 does not have. Addresses are in lower case. */
export interface Permit2Part {
  readonly token: string
  /** The proxy that may use the permit. */
  readonly spender: string
  /** The only account that may settle a payment by `upto`. Null for `exact`. */
  readonly facilitator: string | null
  /** The payer's permit for Permit2, if it sent one. */
  readonly allowance?: TokenPermit
}

export type AuthorizationRead = { readonly ok: true; readonly authorization: Authorization } | Refusal

/**
 * Reads the `payload` of an x402 `exact` payment by EIP-3009, whose form is the same in versions 1 and 2. The function ignores
 * inherited properties, accepts one spelling of each number and never throws.
 */
export function readAuthorization(payload: unknown): AuthorizationRead {
  if (own(payload, 'permit2Authorization') !== undefined) {
    return refuse(
      reasons.payloadType,
      'Expected an EIP-3009 authorization, because this link does not accept Permit2.',
    )
  }
  const fields = own(payload, 'authorization')
  if (typeof fields !== 'object' || fields === null) {
    return refuseUnread(
      reasons.payload,
      'Expected payload.authorization to be an object with the EIP-3009 fields.',
    )
  }
  const from = read(fields, 'from', addressForm)
  const to = read(fields, 'to', addressForm)
  if (from === undefined || to === undefined) {
    return refuseUnread(
      reasons.payload,
      'Expected authorization.from and authorization.to to be addresses of 0x and 40 hex digits.',
    )
  }
  const value = read(fields, 'value', uintForm)
  const validAfter = read(fields, 'validAfter', uintForm)
  const validBefore = read(fields, 'validBefore', uintForm)
  if (value === undefined || validAfter === undefined || validBefore === undefined) {
    return refuseUnread(
      reasons.payload,
      'Expected authorization.value, .validAfter and .validBefore to be strings of decimal digits without leading zeros.',
    )
  }
  const nonce = read(fields, 'nonce', nonceForm)
  if (nonce === undefined) {
    return refuseUnread(reasons.payload, 'Expected authorization.nonce to be 32 bytes: 0x and 64 hex digits.')
  }
  const signature = readSignature(payload)
  if (typeof signature !== 'string') return signature
  return {
    ok: true,
    authorization: {
      from: from.toLowerCase(),
      to: to.toLowerCase(),
      value,
      validAfter,
      validBefore,
      nonce: nonce.toLowerCase(),
      signature,
    },
  }
}

/** The payload's signature in lower case, or why it cannot be read. */
export function readSignature(payload: unknown): string | Refusal {
  const signature = own(payload, 'signature')
  if (typeof signature === 'string' && signature.length <= MAX_SIGNATURE_CHARS && hexForm.test(signature))
    return signature.toLowerCase()
  return refuseUnread(
    reasons.signatureForm,
    'Expected payload.signature to be 0x and an even number of hex digits.',
  )
}

/** Returns an object's own data property. The payer did not send an inherited property. */
export function own(object: unknown, key: string): unknown {
  if (typeof object !== 'object' || object === null || !Object.hasOwn(object, key)) return undefined
  return (object as Record<string, unknown>)[key]
}

export function read(object: object, key: string, form: RegExp): string | undefined {
  const value = own(object, key)
  return typeof value === 'string' && form.test(value) ? value : undefined
}

const typeHash = (type: string): Uint8Array => keccak256(Buffer.from(type, 'utf8'))
const domainTypeHash = typeHash(
  'EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)',
)
/** @see https://eips.ethereum.org/EIPS/eip-3009 */
const transferTypeHash = typeHash(
  'TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)',
)

// One buffer serves every hash, because hashing is synchronous and no other call can use the buffer meanwhile.
const struct = Buffer.alloc(7 * 32)
struct.set(transferTypeHash)
const message = Buffer.alloc(2 + 32 + 32)
message[0] = 0x19
message[1] = 0x01

/** The EIP-712 domain of a token, which wallets show beside the amount. */
export interface TokenDomain {
  readonly name: string
  readonly version: string
  readonly chainId: number
  /** Token contract, in any case. */
  readonly verifyingContract: string
}

/** Hash of a token's EIP-712 domain. The caller computes it once per token. @see https://eips.ethereum.org/EIPS/eip-712 */
export function domainSeparator(domain: TokenDomain): Uint8Array {
  const words = Buffer.alloc(5 * 32)
  words.set(domainTypeHash)
  words.set(keccak256(Buffer.from(domain.name, 'utf8')), 32)
  words.set(keccak256(Buffer.from(domain.version, 'utf8')), 64)
  writeUint(words, String(domain.chainId), 96)
  words.write(domain.verifyingContract.slice(2), 128 + 12, 20, 'hex')
  return keccak256(words)
}

/** The 32 bytes that a payer signs for EIP-3009 `transferWithAuthorization`. Numbers must fit in 256 bits. */
export function authorizationDigest(separator: Uint8Array, authorization: Authorization): Uint8Array {
  struct.write(authorization.from.slice(2), 32 + 12, 20, 'hex')
  struct.write(authorization.to.slice(2), 64 + 12, 20, 'hex')
  writeUint(struct, authorization.value, 96)
  writeUint(struct, authorization.validAfter, 128)
  writeUint(struct, authorization.validBefore, 160)
  struct.write(authorization.nonce.slice(2), 192, 32, 'hex')
  return typedDataDigest(separator, keccak256(struct))
}

/** The 32 bytes that are signed for a struct in a domain. @see https://eips.ethereum.org/EIPS/eip-712 */
export function typedDataDigest(separator: Uint8Array, structHash: Uint8Array): Uint8Array {
  message.set(separator, 2)
  message.set(structHash, 34)
  return keccak256(message)
}

/** Writes decimal digits as a big-endian word. A number of up to 15 digits, such as any realistic USDC amount, needs no BigInt. */
export function writeUint(target: Buffer, digits: string, offset: number): void {
  if (digits.length > 15) {
    target.write(BigInt(digits).toString(16).padStart(64, '0'), offset, 32, 'hex')
    return
  }
  const value = Number(digits)
  target.fill(0, offset, offset + 24)
  target.writeUInt32BE(Math.floor(value / 0x1_0000_0000), offset + 24)
  target.writeUInt32BE(value >>> 0, offset + 28)
}

/** Shortest time until `validBefore`, in seconds. A settlement can take that long. The reference verifier has the same limit. */
export const MIN_LEAD_SECONDS = 6
/** Largest error of a buyer's clock, in seconds. Clients allow the same in the other direction, by `validAfter` = now − 600. */
export const CLOCK_SLACK_SECONDS = 600

const tooLate = `Expected validBefore to be at least ${MIN_LEAD_SECONDS} seconds in the future.`

/** Why an authorization by EIP-3009 does not fit the terms. */
export function judgeTerms(
  payment: PaymentPayload,
  terms: PaymentRequirements,
  authorization: Authorization,
  nowSeconds: number,
): Refusal | undefined {
  if (authorization.to !== terms.payTo.toLowerCase()) {
    return refuse(reasons.recipient, `Expected a transfer to ${terms.payTo}.`)
  }
  // Both numbers have one spelling for each value, so comparing the text is enough.
  if (authorization.value !== terms.amount) {
    const reason = payment.x402Version === 1 ? reasons.valueV1 : reasons.value
    return refuse(reason, `Expected a value of exactly ${terms.amount}.`)
  }
  const validBefore = Number(authorization.validBefore)
  if (validBefore < nowSeconds + MIN_LEAD_SECONDS) return refuse(reasons.validBefore, tooLate)
  if (validBefore > nowSeconds + terms.maxTimeoutSeconds + CLOCK_SLACK_SECONDS) {
    return refuse(reasons.validBefore, `Expected validBefore within ${terms.maxTimeoutSeconds} seconds.`)
  }
  // The token requires block time > `validAfter`, so a `validAfter` in the current second is too late.
  if (Number(authorization.validAfter) >= nowSeconds) {
    return refuse(reasons.validAfter, 'Expected validAfter to be in the past.')
  }
}

/**
 * Half the order of secp256k1. Each signature has a second form with an `s` above this limit, and tokens refuse that form (EIP-2).
 */
const halfOrder = Buffer.from('7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0', 'hex')
const signatureChars = 2 + 65 * 2

/**
 * Changes `v` of a 65-byte signature from 0 or 1 to 27 or 28, which tokens accept. Returns any other signature unchanged.
 *
 * @param signature lower case
 */
export function withEthereumV(signature: string): string {
  if (signature.length !== signatureChars) return signature
  if (signature.endsWith('00')) return `${signature.slice(0, -2)}1b`
  return signature.endsWith('01') ? `${signature.slice(0, -2)}1c` : signature
}

/**
 * Returns the lower-case address whose key made this signature. The signature must have 65 bytes, `s` in the lower half, and `v` 27
 * or 28, or 0 or 1 as hardware and MPC wallets write it. The result is undefined for any other signature, which a contract wallet
 * may still accept. A token accepts only `v` 27 and 28 (see {@link withEthereumV}).
 *
 * A check against a known public key would be faster, but it would ignore `v`, which the token checks.
 *
 * @param signature 0x and hex digits in lower case
 */
export function recoverSigner(
  digest: Uint8Array,
  signature: string,
  curve: Secp256k1 = secp256k1,
): string | undefined {
  if (signature.length !== signatureChars) return undefined
  const bytes = Buffer.from(signature.slice(2), 'hex')
  const v = bytes[64]!
  const recovery = v < 27 ? v : v - 27
  if (recovery > 1) return undefined
  if (bytes.compare(halfOrder, 0, 32, 32, 64) > 0) return undefined
  const key = curve.recover(bytes.subarray(0, 64), recovery, digest)
  if (key === undefined) return undefined
  const hash = keccak256(key.subarray(1))
  return `0x${Buffer.from(hash.buffer, hash.byteOffset + 12, 20).toString('hex')}`
}
