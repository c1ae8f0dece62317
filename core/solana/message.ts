import { readCompactLength } from './wire.ts'

const keyBytes = 32
/** The first byte of a version 0 message. The top bit marks a versioned message, and the lower bits are the version. */
const version0 = 0x80

/** One instruction. Its numbers are indexes into the message's keys. */
export interface Instruction {
  readonly program: number
  readonly accounts: Uint8Array
  readonly data: Uint8Array
}

/** A decoded message, legacy or version 0. All byte fields are views into the message. */
export interface Message {
  readonly version: 'legacy' | 0
  readonly requiredSignatures: number
  readonly readonlySigned: number
  readonly readonlyUnsigned: number
  readonly keys: readonly Uint8Array[]
  readonly blockhash: Uint8Array
  readonly instructions: readonly Instruction[]
  /** Number of address lookup tables. If it is above 0, indexes in `instructions` may be beyond `keys`. */
  readonly lookupTables: number
}

/**
 * Reads a transaction message strictly. Every length must be in its shortest form, every index must exist in the keys, no byte may
 * be left over, and the header must follow the rules of the cluster's sanitizer. Every field then has only one spelling, so that
 * encoding the message again gives the same bytes. The contents of lookup tables are not known here. A message with such a table is
 * read up to that table, so that the caller can refuse the message.
 *
 * @returns undefined for any other message, including versions above 0
 */
export function readMessage(bytes: Uint8Array): Message | undefined {
  const isVersioned = (bytes[0]! & 0x80) !== 0
  if (isVersioned && bytes[0] !== version0) return undefined
  const header = isVersioned ? 1 : 0
  const requiredSignatures = bytes[header]!
  const readonlySigned = bytes[header + 1]!
  const readonlyUnsigned = bytes[header + 2]!
  const keyCount = readCompactLength(bytes, header + 3)
  if (keyCount === undefined) return undefined
  const blockhashAt = keyCount.next + keyCount.value * keyBytes
  // The fee payer signs and is writable, and all signers and read-only accounts are among the keys.
  if (readonlySigned >= requiredSignatures) return undefined
  if (requiredSignatures + readonlyUnsigned > keyCount.value) return undefined
  const instructionCount = readCompactLength(bytes, blockhashAt + keyBytes)
  if (instructionCount === undefined) return undefined

  const instructions: Instruction[] = []
  let at = instructionCount.next
  for (let i = 0; i < instructionCount.value; i++) {
    const program = bytes[at]
    const accountCount = readCompactLength(bytes, at + 1)
    if (program === undefined || accountCount === undefined) return undefined
    const dataLength = readCompactLength(bytes, accountCount.next + accountCount.value)
    if (dataLength === undefined) return undefined
    const end = dataLength.next + dataLength.value
    if (end > bytes.length) return undefined
    const accounts = bytes.subarray(accountCount.next, accountCount.next + accountCount.value)
    instructions.push({ program, accounts, data: bytes.subarray(dataLength.next, end) })
    at = end
  }

  let lookupTables = 0
  if (isVersioned) {
    const tables = readCompactLength(bytes, at)
    if (tables === undefined) return undefined
    lookupTables = tables.value
    at = tables.next
  }
  if (lookupTables === 0 && (at !== bytes.length || !placesExist(instructions, keyCount.value)))
    return undefined

  const keys: Uint8Array[] = []
  for (let key = keyCount.next; key < blockhashAt; key += keyBytes)
    keys.push(bytes.subarray(key, key + keyBytes))
  return {
    version: isVersioned ? 0 : 'legacy',
    requiredSignatures,
    readonlySigned,
    readonlyUnsigned,
    keys,
    blockhash: bytes.subarray(blockhashAt, blockhashAt + keyBytes),
    instructions,
    lookupTables,
  }
}

/** Whether every index exists in the keys, and no program is the fee payer (index 0). */
function placesExist(instructions: readonly Instruction[], keyCount: number): boolean {
  for (const { program, accounts } of instructions) {
    if (program === 0 || program >= keyCount) return false
    for (const account of accounts) if (account >= keyCount) return false
  }
  return true
}
