import { addressForm, keccak256 } from '../../../core/evm/hex.ts'

export interface TypedField {
  readonly name: string
  readonly type: string
}

/** Typed data as EIP-712 defines it, without `EIP712Domain` in `types`. */
export interface TypedData {
  readonly domain: Readonly<Record<string, unknown>>
  readonly types: ReadonlyMap<string, readonly TypedField[]>
  readonly primaryType: string
  readonly message: Readonly<Record<string, unknown>>
}

/** The fields that a domain can have, in the order of the standard. */
export const domainFields: readonly TypedField[] = [
  { name: 'name', type: 'string' },
  { name: 'version', type: 'string' },
  { name: 'chainId', type: 'uint256' },
  { name: 'verifyingContract', type: 'address' },
  { name: 'salt', type: 'bytes32' },
]

const identifier = /^[A-Za-z_$][A-Za-z0-9_$]{0,127}$/
/**
 * Valid names of types. Wallets accept any name, and some real names contain punctuation, such as
 * `HyperliquidTransaction:UsdSend`. Excluded are quotes, look-alike letters, and the characters that `encodeType` puts between
 * names.
 */
const typeName = /^[A-Za-z_$][\w$.:/@-]{0,127}$/
/** Names that some wallets read as a Solidity type, even where the data defines a struct of that name. */
const solidityName = /^(?:address|bool|string|(?:bytes|u?int)\d*)$/
const arrayForm = /^(.*)\[([1-9]\d{0,5})?\]$/
const MAX_DEPTH = 16

/**
 * Limits of typed data. Orders in wallets have a few kilobytes. Larger data serves only to keep a reader busy or to hide what
 * matters.
 */
export const typedDataLimits = {
  /** Maximum characters of the whole as JSON. */
  chars: 65_536,
  types: 64,
  /** Maximum characters of all types, with names and fields. */
  typeChars: 16_384,
  /** Maximum values of the message, including those in lists and structs. */
  values: 4_096,
} as const
const LONGEST_TYPE_NAME = 256

/** Keccak-256. It is a parameter, so that a test can count the calls. */
type Hash = (bytes: Uint8Array) => Uint8Array

/** The typed data is invalid. The message states what was expected. */
export class TypedDataProblem extends Error {
  override readonly name = 'TypedDataProblem'
}

/**
 * The 66 bytes whose Keccak-256 is signed: 0x1901, the domain's hash, the message's hash. Each struct must have exactly the
 * fields of its type, numbers must be in range, names must be valid, and no type may contain itself. If a field were shown but
 * not hashed, or missing and hashed as zero, the owner and the contract would read different data. Each type and each value is
 * hashed once, so {@link typedDataLimits} limits the work.
 *
 * @throws {TypedDataProblem}
 * @see https://eips.ethereum.org/EIPS/eip-712
 */
export function typedDataPreimage(data: TypedData, hash: Hash = keccak256): Uint8Array {
  checkTypes(data.types, data.primaryType)
  const fields = domainFields.filter(({ name }) => Object.hasOwn(data.domain, name))
  if (fields.length !== Object.keys(data.domain).length)
    throw new TypedDataProblem('Expected only the fields of EIP712Domain in domain.')
  const domain = new Encoder(new Map([['EIP712Domain', fields]]), hash)
  const message = new Encoder(data.types, hash)
  return Buffer.concat([
    Uint8Array.of(0x19, 0x01),
    domain.struct('EIP712Domain', data.domain, 0),
    message.struct(data.primaryType, data.message, 0),
  ])
}

/** `encodeType` of EIP-712: the struct, then the structs that it refers to, sorted by name. */
export function encodeType(name: string, types: TypedData['types']): string {
  const found = new Set<string>()
  const walk = (type: string): void => {
    const base = baseOf(type)
    if (found.has(base) || !types.has(base)) return
    found.add(base)
    for (const field of types.get(base)!) walk(field.type)
  }
  walk(name)
  found.delete(name)
  return [name, ...[...found].sort()]
    .map(
      (type) =>
        `${type}(${types
          .get(type)!
          .map((f) => `${f.type} ${f.name}`)
          .join(',')})`,
    )
    .join('')
}

/** The part of a type's name that MetaMask and viem read as the name of a struct when they search for referenced structs. */
const plainStart = (name: string): string => /^\w*/.exec(name)![0]
const isCut = (name: string): boolean => plainStart(name) !== name

/**
 * Checks that the fields of every type have known types, that no type contains itself, and that none has the name of an atomic
 * type.
 */
function checkTypes(types: TypedData['types'], primaryType: string): void {
  // The size is checked first, because every check below visits each type, some more than once.
  if (types.size > typedDataLimits.types)
    throw new TypedDataProblem(`Expected at most ${typedDataLimits.types} types, got ${types.size}.`)
  let chars = 0
  for (const [name, fields] of types) {
    chars += name.length
    for (const field of fields) {
      chars += field.name.length + field.type.length
      if (field.type.length > LONGEST_TYPE_NAME)
        throw new TypedDataProblem(`Expected types of at most ${LONGEST_TYPE_NAME} characters.`)
    }
  }
  if (chars > typedDataLimits.typeChars)
    throw new TypedDataProblem(
      `Expected at most ${typedDataLimits.typeChars} characters of types, got ${chars}.`,
    )
  if (!types.has(primaryType)) throw new TypedDataProblem('Expected primaryType to be one of types.')
  for (const [name, fields] of types) {
    if (!typeName.test(name) || solidityName.test(name))
      throw new TypedDataProblem(
        'Expected each type to have a name of its own: a letter, _ or $, then letters, digits and _ $ . : / @ -',
      )
    const structs = fields.map(({ type }) => baseOf(type)).filter((base) => types.has(base))
    if ((isCut(name) && (structs.length > 0 || types.has(plainStart(name)))) || structs.some(isCut))
      throw new TypedDataProblem(
        'Expected types that refer to each other to be named in letters, digits and _, because wallets differ in how they hash other names.',
      )
    const names = new Set(fields.map((field) => field.name))
    if (names.size !== fields.length || fields.some((field) => !identifier.test(field.name)))
      throw new TypedDataProblem(`Expected each field of ${name} to have a name of its own.`)
    for (const { type } of fields) {
      const base = baseOf(type)
      if (!types.has(base) && !isAtomic(base))
        throw new TypedDataProblem(
          `Expected known types in ${name}, got ${JSON.stringify(type.slice(0, 40))}.`,
        )
    }
  }
  const done = new Set<string>()
  const visit = (name: string, above: readonly string[]): void => {
    if (above.includes(name)) throw new TypedDataProblem(`Expected no type to contain itself, ${name} does.`)
    if (done.has(name)) return
    for (const { type } of types.get(name) ?? []) visit(baseOf(type), [...above, name])
    done.add(name)
  }
  for (const name of types.keys()) visit(name, [])
}

/** Encodes values of one set of types and hashes each type once. */
class Encoder {
  readonly #types: TypedData['types']
  readonly #hash: Hash
  readonly #typeHashes = new Map<string, Uint8Array>()
  #values = 0

  constructor(types: TypedData['types'], hash: Hash) {
    this.#types = types
    this.#hash = hash
  }

  struct(type: string, value: unknown, depth: number): Uint8Array {
    const fields = this.#types.get(type)!
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new TypedDataProblem(`Expected an object of type ${type}.`)
    const given = Object.keys(value)
    if (given.length !== fields.length || !fields.every(({ name }) => Object.hasOwn(value, name)))
      throw new TypedDataProblem(`Expected exactly the fields of ${type}, no more and no fewer.`)
    const words = fields.map(({ name, type: of }) =>
      this.#value(of, (value as Record<string, unknown>)[name], depth + 1),
    )
    return this.#hash(Buffer.concat([this.#typeHash(type), ...words]))
  }

  /** The 32-byte word of a value. */
  #value(type: string, value: unknown, depth: number): Uint8Array {
    if (depth > MAX_DEPTH) throw new TypedDataProblem(`Expected at most ${MAX_DEPTH} levels of nesting.`)
    if (++this.#values > typedDataLimits.values)
      throw new TypedDataProblem(`Expected at most ${typedDataLimits.values} values.`)
    const array = arrayForm.exec(type)
    if (array !== null) {
      const [, of, length] = array
      const isRight = Array.isArray(value) && (length === undefined || value.length === Number(length))
      if (!isRight) throw new TypedDataProblem(`Expected a list of type ${type}.`)
      return this.#hash(Buffer.concat(value.map((item) => this.#value(of!, item, depth + 1))))
    }
    return this.#types.has(type) ? this.struct(type, value, depth) : encodeAtomic(type, value, this.#hash)
  }

  #typeHash(type: string): Uint8Array {
    let found = this.#typeHashes.get(type)
    if (found === undefined) {
      found = this.#hash(Buffer.from(encodeType(type, this.#types), 'utf8'))
      this.#typeHashes.set(type, found)
    }
    return found
  }
}

function encodeAtomic(type: string, value: unknown, hash: Hash): Uint8Array {
  const wrong = (): never => {
    throw new TypedDataProblem(`Expected a value of type ${type} in its plain spelling.`)
  }
  if (type === 'string')
    return typeof value === 'string' && value.isWellFormed() ? hash(Buffer.from(value, 'utf8')) : wrong()
  if (type === 'bytes') return hash(hexOf(value) ?? wrong())
  if (type === 'bool') return typeof value === 'boolean' ? word(value ? 1n : 0n) : wrong()
  if (type === 'address')
    return typeof value === 'string' && addressForm.test(value) ? word(BigInt(value)) : wrong()
  if (type.startsWith('bytes')) {
    const bytes = hexOf(value)
    if (bytes?.length !== Number(type.slice(5))) return wrong()
    return Buffer.concat([bytes, Buffer.alloc(32 - bytes.length)])
  }
  const isSigned = type.startsWith('int')
  const bits = BigInt(type.slice(isSigned ? 3 : 4) || 256)
  const number = integerOf(value) ?? wrong()
  const [min, max] = isSigned ? [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n] : [0n, 2n ** bits - 1n]
  return number < min || number > max ? wrong() : word(BigInt.asUintN(256, number))
}

/** Parses a safe integer, decimal digits or 0x hex. */
export function integerOf(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : undefined
  if (typeof value !== 'string') return undefined
  if (/^0x[0-9a-fA-F]{1,64}$/.test(value)) return BigInt(value)
  return /^(0|-?[1-9]\d{0,77})$/.test(value) ? BigInt(value) : undefined
}

function hexOf(value: unknown): Uint8Array | undefined {
  return typeof value === 'string' && /^0x(?:[0-9a-fA-F]{2})*$/.test(value)
    ? Buffer.from(value.slice(2), 'hex')
    : undefined
}

const word = (value: bigint): Uint8Array => Buffer.from(value.toString(16).padStart(64, '0'), 'hex')

const baseOf = (type: string): string => {
  const array = arrayForm.exec(type)
  return array === null ? type : baseOf(array[1]!)
}

/** `int` and `uint` alone are aliases that EIP-712 does not have in its type encoding. */
function isAtomic(type: string): boolean {
  if (['string', 'bytes', 'bool', 'address'].includes(type)) return true
  const sized = /^(bytes|u?int)([1-9]\d{0,2})$/.exec(type)
  if (sized === null) return false
  const size = Number(sized[2])
  return sized[1] === 'bytes' ? size <= 32 : size <= 256 && size % 8 === 0
}
