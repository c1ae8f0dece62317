import { readCompactLength } from './wire.ts'

const keyBytes = 32
/** The first byte of a versioned message: the top bit, and the version below it. */
const version0 = 0x80

/** One instruction; numbers are places in the message's keys. */
export interface Instruction {
  readonly program: number
  readonly accounts: Uint8Array
  readonly data: Uint8Array
}

/** A legacy or version 0 message, decoded. All byte fields are views into the message. */
export interface Message {
  readonly version: 'legacy' | 0
  readonly requiredSignatures: number
  readonly readonlySigned: number
  readonly readonlyUnsigned: number
  readonly keys: readonly Uint8Array[]
  readonly blockhash: Uint8Array
  readonly instructions: readonly Instruction[]
  /** How many address lookup tables it names. Above 0, places in `instructions` may lie beyond `keys`. */
  readonly lookupTables: number
}

/**
 * Reads a transaction message, strictly: every length in its shortest form, every place inside the keys, no byte left
 * over, and the header's rules as the cluster's sanitizer has them. Because every field has one spelling, writing the
 * message again would give the same bytes. The contents of lookup tables are not known here; a message that names one
 * is read up to that point, for the caller to refuse.
 *
 * @returns undefined for anything else, versions above 0 included.
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
  // The fee payer signs and is written to; signers and read-only accounts are parts of the keys.
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

/** Every place is inside the keys, and no program is the fee payer (place 0). */
function placesExist(instructions: readonly Instruction[], keyCount: number): boolean {
  for (const { program, accounts } of instructions) {
    if (program === 0 || program >= keyCount) return false
    for (const account of accounts) if (account >= keyCount) return false
  }
  return true
}
