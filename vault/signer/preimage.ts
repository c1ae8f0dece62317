import { keccak_256 } from '@noble/hashes/sha3.js'
import type { SignKind } from '../ports/signer.ts'

/**
 * The 32-byte digest that secp256k1 signs for bytes of a kind, or undefined when they are not of it. What keeps the kinds
 * apart is their first byte (EIP-191, EIP-2718): a message begins with 0x19 once prefixed, a transaction with 1 to 3 or,
 * as an RLP list, 0xc0 and above. So a request of one kind never yields a signature of another.
 */
export function evmDigest(kind: SignKind, bytes: Uint8Array): Uint8Array | undefined {
  if (kind === 'evm-message') {
    const prefix = Buffer.from(`\x19Ethereum Signed Message:\n${bytes.length}`, 'latin1')
    return keccak_256(Buffer.concat([prefix, bytes]))
  }
  if (kind === 'evm-typed-data') {
    return bytes.length === 66 && bytes[0] === 0x19 && bytes[1] === 0x01 ? keccak_256(bytes) : undefined
  }
  if (kind !== 'evm-transaction') return undefined
  const first = bytes[0] ?? 0
  // Type 4 gives the account's code away (EIP-7702); 5 and above are not known.
  const isTyped = first >= 1 && first <= 3
  return isWholeList(isTyped ? bytes.subarray(1) : bytes) ? keccak_256(bytes) : undefined
}

/** True when the bytes are one RLP list from the first to the last (Ethereum yellow paper, appendix B). */
function isWholeList(bytes: Uint8Array): boolean {
  const first = bytes[0] ?? 0
  if (first < 0xc0) return false
  if (first <= 0xf7) return bytes.length === 1 + first - 0xc0
  const lengthBytes = first - 0xf7
  if (lengthBytes > 4 || bytes.length < 1 + lengthBytes || bytes[1] === 0) return false
  let length = 0
  for (let i = 1; i <= lengthBytes; i++) length = length * 256 + bytes[i]!
  return length > 55 && bytes.length === 1 + lengthBytes + length
}
