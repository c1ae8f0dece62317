import { keccak256 } from '../../../../core/evm/keccak.ts'
import type { Authorization } from './authorization.ts'

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
