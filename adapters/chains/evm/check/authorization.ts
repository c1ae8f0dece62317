import { addressForm } from '../../../../core/evm/address.ts'
import { keccak256 } from '../../../../core/evm/keccak.ts'
import type { Refusal } from '../../../../core/ports/chains/settler.ts'
import { refuse, refuseUnread } from '../../refuse.ts'
import { reasons } from '../reasons.ts'

/** Canonical decimal of at most 78 digits: one spelling a number, so that equal text is equal value. */
const uintForm = /^(0|[1-9]\d{0,77})$/
const nonceForm = /^0x[0-9a-fA-F]{64}$/
const hexForm = /^0x(?:[0-9a-fA-F]{2})+$/
/** Contract wallets sign with whole proofs; longer than this is none that a 16 KiB header could carry. */
const MAX_SIGNATURE_CHARS = 16_384

/** An EIP-3009 authorisation as a payer signed it; hex in lower case, numbers as decimal digits. */
export interface Authorization {
  readonly from: string
  readonly to: string
  readonly value: string
  /** Seconds since 1970; the transfer must be later. */
  readonly validAfter: string
  /** Seconds since 1970; the transfer must be earlier. */
  readonly validBefore: string
  readonly nonce: string
  /** 65 bytes of an account with a key, any length of a contract wallet (ERC-1271, ERC-6492). */
  readonly signature: string
}

export type AuthorizationRead = { readonly ok: true; readonly authorization: Authorization } | Refusal

/**
 * Reads the `payload` of an x402 `exact` payment by EIP-3009, the same in version 1 and 2. Reads own properties only,
 * accepts one spelling of each number, and never throws whatever it is given.
 */
export function readAuthorization(payload: unknown): AuthorizationRead {
  if (own(payload, 'permit2Authorization') !== undefined) {
    return refuse(reasons.payloadType, 'Expected an EIP-3009 authorization; this link does not take Permit2.')
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
      'Expected authorization.from and .to to be addresses: 0x and 40 hex digits.',
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
  const signature = own(payload, 'signature')
  if (typeof signature !== 'string' || signature.length > MAX_SIGNATURE_CHARS || !hexForm.test(signature)) {
    return refuseUnread(
      reasons.signatureForm,
      'Expected payload.signature to be 0x and an even number of hex digits.',
    )
  }
  return {
    ok: true,
    authorization: {
      from: from.toLowerCase(),
      to: to.toLowerCase(),
      value,
      validAfter,
      validBefore,
      nonce: nonce.toLowerCase(),
      signature: signature.toLowerCase(),
    },
  }
}

/** The own data property of an object; an inherited one is not the payer's word. */
function own(object: unknown, key: string): unknown {
  if (typeof object !== 'object' || object === null || !Object.hasOwn(object, key)) return undefined
  return (object as Record<string, unknown>)[key]
}

function read(object: object, key: string, form: RegExp): string | undefined {
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

// One struct at a time: the hash is synchronous, so nobody else can be half way through these.
const struct = Buffer.alloc(7 * 32)
struct.set(transferTypeHash)
const message = Buffer.alloc(2 + 32 + 32)
message[0] = 0x19
message[1] = 0x01

/** The EIP-712 domain of a token: what a wallet shows beside the amount. */
export interface TokenDomain {
  readonly name: string
  readonly version: string
  readonly chainId: number
  /** Token contract, any case. */
  readonly verifyingContract: string
}

/** Hash of a token's EIP-712 domain; compute it once per token. @see https://eips.ethereum.org/EIPS/eip-712 */
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
  message.set(separator, 2)
  message.set(keccak256(struct), 34)
  return keccak256(message)
}

/** Writes decimal digits as a big-endian word; up to 15 digits without a BigInt, which is every USDC amount there is. */
function writeUint(target: Buffer, digits: string, offset: number): void {
  if (digits.length > 15) {
    target.write(BigInt(digits).toString(16).padStart(64, '0'), offset, 32, 'hex')
    return
  }
  const value = Number(digits)
  target.fill(0, offset, offset + 24)
  target.writeUInt32BE(Math.floor(value / 0x1_0000_0000), offset + 24)
  target.writeUInt32BE(value >>> 0, offset + 28)
}
