import { createRequire } from 'node:module'
import { toHex } from 'ox/Rlp'
import { keccak256 } from '../../../../core/evm/hex.ts'
import type { EvmCall } from '../../../../core/evm/token.ts'
import { type Receipt, readReceipt } from '../../../../core/evm/transferProof.ts'
import type { Clock } from '../../../../core/ports/clock.ts'
import type { Log } from '../../../../core/ports/log.ts'
import { RpcRefused } from '../../../../core/rpc/post.ts'
import type { Rpc } from '../../../../core/rpc/rpc.ts'

/** Highest prices of a unit of gas, in wei. */
export interface Fees {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/** A call as an EIP-1559 transaction that transfers no ether. */
export interface CallTransaction extends Fees, EvmCall {
  readonly chainId: number
  /** The account's nonce. */
  readonly nonce: number
  readonly gas: number
}

/** The bytes to broadcast and the hash that identifies them on chain, both in lower-case hex with 0x. */
export interface SignedTransaction {
  readonly bytes: string
  readonly hash: string
}

/**
 * Signs a transaction in 100 µs; viem takes 1.5 ms. The same fields and key give the same bytes with either secp256k1 library.
 *
 * @see https://eips.ethereum.org/EIPS/eip-1559
 */
export function signTransaction(
  transaction: CallTransaction,
  privateKey: Uint8Array,
  curve: Secp256k1 = secp256k1,
): SignedTransaction {
  const { chainId, nonce, maxPriorityFeePerGas, maxFeePerGas, gas, to, data } = transaction
  const fields =
    number(chainId) +
    number(nonce) +
    number(maxPriorityFeePerGas) +
    number(maxFeePerGas) +
    number(gas) +
    string(to.slice(2)) +
    noEther +
    string(data.slice(2)) +
    noAccessList
  const digest = keccak256(envelope(fields))
  const { signature, recovery } = curve.sign(digest, privateKey)
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)]
  const bytes = envelope(fields + number(recovery) + number(uintOf(r)) + number(uintOf(s)))
  return { bytes: hexOf(bytes), hash: hexOf(keccak256(bytes)) }
}

/** Decodes the call from bytes that {@link signTransaction} made, with its address in lower case. @throws for other bytes */
export function callOf(bytes: string): EvmCall {
  if (!bytes.startsWith('0x02')) throw new Error('Expected a transaction of EIP-1559.')
  const [, , , , , to, , data] = toHex(`0x${bytes.slice(4)}`)
  if (typeof to !== 'string' || typeof data !== 'string' || to === '0x')
    throw new Error('Expected a transaction that is a call.')
  return { to: to.toLowerCase(), data }
}

/**
 * Decodes the gas limit and the price in wei of one unit from bytes that {@link signTransaction} made. Undefined for other bytes.
 */
export function limitsOf(bytes: string): { readonly gas: bigint; readonly maxFeePerGas: bigint } | undefined {
  if (!bytes.startsWith('0x02')) return undefined
  try {
    const [, , , maxFeePerGas, gas] = toHex(`0x${bytes.slice(4)}`)
    return typeof maxFeePerGas === 'string' && typeof gas === 'string'
      ? { gas: numberIn(gas), maxFeePerGas: numberIn(maxFeePerGas) }
      : undefined
  } catch {
    return undefined
  }
}

/** The address of a key, in lower case. @throws when the 32 bytes are no valid key: zero, or not below the curve's order */
export const addressOfKey = (privateKey: Uint8Array, curve: Secp256k1 = secp256k1): string =>
  hexOf(keccak256(curve.publicKey(privateKey).subarray(1)).subarray(12))

/** RLP encodes zero as no bytes. */
const numberIn = (bytes: string): bigint => BigInt(bytes === '0x' ? 0 : bytes)

const hexOf = (bytes: Uint8Array): string =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`

const uintOf = (bytes: Uint8Array): bigint => BigInt(hexOf(bytes))

/** RLP of a number: its bytes without leading zeros, and no bytes for zero. */
function number(value: number | bigint): string {
  const hex = value.toString(16)
  return string(hex === '0' ? '' : hex.length % 2 === 0 ? hex : `0${hex}`)
}

const noEther = '80'
const noAccessList = 'c0'

/** RLP of a string of bytes, hex without 0x. @see https://ethereum.org/developers/docs/data-structures-and-encoding/rlp */
function string(hex: string): string {
  const isItself = hex.length === 2 && Number.parseInt(hex, 16) < 0x80
  return isItself ? hex : head(0x80, hex.length / 2) + hex
}

/** The type's byte and the RLP list of the fields. */
const envelope = (fields: string): Buffer => Buffer.from(`02${head(0xc0, fields.length / 2)}${fields}`, 'hex')

/**
 * The RLP header for this many bytes. A header for a short string is one byte. Otherwise it has the length of the length, and the
 * length.
 */
function head(offset: number, length: number): string {
  if (length < 56) return (offset + length).toString(16)
  const digits = length.toString(16)
  const padded = digits.length % 2 === 0 ? digits : `0${digits}`
  return (offset + 55 + padded.length / 2).toString(16) + padded
}

const require = createRequire(import.meta.url)

/** Arithmetic on secp256k1. Signing is deterministic (RFC 6979), so both libraries give the same bytes. */
export interface Secp256k1 {
  readonly name: 'libsecp256k1' | 'noble'
  /**
   * The uncompressed public key (65 bytes, the first is 4) that made this signature, or undefined if no key did. `s` may be in
   * either half of the order, because the caller refuses the upper half.
   * @param signature 64 bytes: r, s
   * @param recovery 0 or 1
   */
  recover(signature: Uint8Array, recovery: number, digest: Uint8Array): Uint8Array | undefined
  /** 64 bytes: `r`, and `s` in the lower half of the order (EIP-2). @param digest 32 bytes */
  sign(
    digest: Uint8Array,
    privateKey: Uint8Array,
  ): { readonly signature: Uint8Array; readonly recovery: number }
  /**
   * The uncompressed public key: 65 bytes, the first is 4. @throws when the 32 bytes are no valid key: zero, or not below the order
   */
  publicKey(privateKey: Uint8Array): Uint8Array
}

/**
 * libsecp256k1 through the prebuilt addon of npm `secp256k1`: 58 µs per recovery. @throws when the addon does not load on this
 * machine
 */
export function loadNativeSecp256k1(): Secp256k1 {
  // Imports `bindings`, because the package's main entry silently falls back to elliptic, which is slow and unmaintained.
  const native = require('secp256k1/bindings.js') as {
    ecdsaRecover(
      sig: Uint8Array,
      recovery: number,
      digest: Uint8Array,
      compressed: boolean,
      output: Uint8Array,
    ): Uint8Array
    ecdsaSign(digest: Uint8Array, key: Uint8Array): { signature: Uint8Array; recid: number }
    publicKeyCreate(key: Uint8Array, compressed: boolean): Uint8Array
  }
  return {
    name: 'libsecp256k1',
    recover(signature, recovery, digest) {
      try {
        // Allocated from node's pool, because a separate array of 65 bytes would cost the garbage collector more.
        return native.ecdsaRecover(signature, recovery, digest, false, Buffer.allocUnsafe(65))
      } catch {
        return undefined
      }
    },
    sign(digest, privateKey) {
      const { signature, recid } = native.ecdsaSign(digest, privateKey)
      return { signature, recovery: recid }
    },
    publicKey: (privateKey) => native.publicKeyCreate(privateKey, false),
  }
}

/** The audited JavaScript of @noble/curves. It needs no addon and takes about 1.2 ms per recovery. */
export function loadNobleSecp256k1(): Secp256k1 {
  const { secp256k1: noble } = require('@noble/curves/secp256k1') as typeof import('@noble/curves/secp256k1')
  return {
    name: 'noble',
    recover(signature, recovery, digest) {
      try {
        const parsed = noble.Signature.fromCompact(signature).addRecoveryBit(recovery)
        return parsed.recoverPublicKey(digest).toRawBytes(false)
      } catch {
        return undefined
      }
    },
    sign(digest, privateKey) {
      const signed = noble.sign(digest, privateKey, { lowS: true, prehash: false })
      return { signature: signed.toCompactRawBytes(), recovery: signed.recovery }
    },
    publicKey: (privateKey) => noble.getPublicKey(privateKey, false),
  }
}

/** The faster of the two libraries that loads on this machine. */
export const secp256k1: Secp256k1 = loadFastest()

function loadFastest(): Secp256k1 {
  try {
    return loadNativeSecp256k1()
  } catch {
    return loadNobleSecp256k1()
  }
}

/** A node's response to a signed transaction. */
export type BroadcastResult =
  /** The node has accepted the transaction; `isKnown` if it already had it. */
  | { readonly taken: 'yes'; readonly isKnown: boolean }
  /** The nonce is already used, because this transaction is mined or another one has permanently replaced it. */
  | { readonly taken: 'nonce_used'; readonly message: string }
  /** Another transaction with this nonce is in the pool and pays at least as much. */
  | { readonly taken: 'nonce_contested'; readonly message: string }
  /** The node refuses the transaction for now (fees too low, no funds, pool full). The bytes stay valid. */
  | { readonly taken: 'refused'; readonly message: string }
  /** No response, so the node may or may not have received the transaction. */
  | { readonly taken: 'unknown'; readonly message: string }

/**
 * Sends signed bytes. Sending them again is always safe, because the same bytes are the same transaction. Never rejects. The
 * patterns match the error texts of geth, nethermind, erigon, besu, reth and anvil.
 */
export async function broadcast(rpc: Rpc, bytes: string): Promise<BroadcastResult> {
  try {
    await rpc.call('eth_sendRawTransaction', bytes)
    return { taken: 'yes', isKnown: false }
  } catch (error) {
    if (error instanceof RpcRefused) return readRefusal(error)
    return { taken: 'unknown', message: error instanceof Error ? error.message : 'failed' }
  }
}

/** What a node's refusal means for a signed transaction. */
function readRefusal({ message }: RpcRefused): BroadcastResult {
  if (/already known|already imported|known transaction|alreadyknown|already exists/i.test(message)) {
    return { taken: 'yes', isKnown: true }
  }
  if (/nonce too low|oldnonce|nonce is too low|nonce has already been used/i.test(message)) {
    return { taken: 'nonce_used', message }
  }
  if (/replacement|underpriced/i.test(message)) return { taken: 'nonce_contested', message }
  return { taken: 'refused', message }
}

const method = 'eth_sendRawTransactionSync'
/**
 * Maximum number of open requests at a single node. Further transactions are sent by `eth_sendRawTransaction`. The limit is halved
 * whenever a request gets no response, because some providers do not respond to too many requests. It leaves room for reads, in
 * case a provider counts connections.
 */
const MAX_AT_ONCE = 32
/** How long a probe's result is valid, in ms. A node that could not be probed is probed again after the same time. */
const PROBE_AGAIN_MS = 600_000
const RETRY_MS = 30_000

/** The result of sending a transaction: its receipt, which the caller has yet to judge, or the node's response. */
type SyncResponse = { readonly receipt: Receipt } | BroadcastResult

/**
 * Sends a transaction and gets its receipt in one request (`eth_sendRawTransactionSync`), if the node has the method. If the
 * response has no receipt, the caller sends the bytes by `eth_sendRawTransaction` or polls for the receipt by the hash. This class
 * never signs.
 * @see https://eips.ethereum.org/EIPS/eip-7966
 */
export class SyncSend {
  readonly #rpc: Rpc
  readonly #clock: Clock
  readonly #log: Log
  #isThere = false
  #probedAtMs = Number.POSITIVE_INFINITY
  #againMs = RETRY_MS
  #open = 0
  #most = MAX_AT_ONCE

  constructor({ rpc, clock, log }: { readonly rpc: Rpc; readonly clock: Clock; readonly log: Log }) {
    this.#rpc = rpc
    this.#clock = clock
    this.#log = log
  }

  /**
   * Checks whether the node has the method. Until then `send` returns undefined. The probe sends bytes that are no transaction. A
   * node with the method rejects the bytes, and a node without it rejects the method. Never rejects.
   */
  async probe(): Promise<void> {
    this.#probedAtMs = this.#clock.now()
    this.#againMs = RETRY_MS
    try {
      await this.#rpc.call(method, '0x')
      this.#isThere = false
    } catch (error) {
      this.#isThere = error instanceof RpcRefused && !lacksMethod(error)
      if (!(error instanceof RpcRefused)) return
    }
    this.#againMs = PROBE_AGAIN_MS
    this.#log.debug({ isThere: this.#isThere }, `the node was probed for ${method}`)
  }

  /**
   * Sends the transaction. Undefined when the node lacks the method or has enough open requests; the caller then uses
   * `eth_sendRawTransaction`. Never rejects.
   */
  send(bytes: string, transaction: string, waitMs: number): Promise<SyncResponse> | undefined {
    const isKnown = this.#probedAtMs !== Number.POSITIVE_INFINITY
    if (isKnown && Math.abs(this.#clock.now() - this.#probedAtMs) >= this.#againMs) void this.probe()
    return this.#isThere && this.#open < this.#most ? this.#send(bytes, transaction, waitMs) : undefined
  }

  async #send(bytes: string, transaction: string, waitMs: number): Promise<SyncResponse> {
    this.#open++
    try {
      const response = await this.#rpc.callWithin(waitMs, method, bytes)
      if (this.#most < MAX_AT_ONCE) this.#most++
      const receipt = readReceipt(response, transaction)
      return receipt === undefined
        ? { taken: 'unknown', message: 'the receipt is of another transaction' }
        : { receipt }
    } catch (error) {
      if (!(error instanceof RpcRefused)) {
        this.#most = Math.max(1, this.#most >> 1)
        return { taken: 'unknown', message: String(error) }
      }
      // By EIP-7966, code 4 means that the transaction is in the pool. But a proxy's own timeout looks the same, so the outcome is
      // unknown.
      if (error.code === 4 || /time(d )?out/i.test(error.message))
        return { taken: 'unknown', message: error.message }
      if (lacksMethod(error)) this.#isThere = false
      const read = readRefusal(error)
      return read.taken === 'refused' ? broadcast(this.#rpc, bytes) : read
    } finally {
      this.#open--
    }
  }
}

/** Codes of JSON-RPC 2.0 (-32601) and EIP-1474 (-32004), and texts of providers that allow some methods only. */
const lacksMethod = ({ code, message }: RpcRefused): boolean =>
  code === -32601 ||
  code === -32004 ||
  /method.*not|not.*(?:support|avail|allow|found|implement)|unsupported|unknown method|whitelist/i.test(
    message,
  )
