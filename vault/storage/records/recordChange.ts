/** A record as it is kept: its ciphertext and what is not secret about it. */
export interface StoredRecord {
  readonly version: number
  readonly updatedAtMs: number
  readonly sealed: Buffer
}

const putOperation = 1
const deleteOperation = 2
const fixedBytes = 1 + 2 + 4 + 8

/** One change of the records as a payload of their log. */
export function encodePut(scope: string, record: StoredRecord): Buffer {
  const name = Buffer.from(scope, 'utf8')
  const head = Buffer.alloc(fixedBytes)
  head.writeUInt8(putOperation)
  head.writeUInt16BE(name.length, 1)
  head.writeUInt32BE(record.version, 3)
  head.writeDoubleBE(record.updatedAtMs, 7)
  return Buffer.concat([head, name, record.sealed])
}

export function encodeDelete(scope: string): Buffer {
  const name = Buffer.from(scope, 'utf8')
  const head = Buffer.alloc(fixedBytes)
  head.writeUInt8(deleteOperation)
  head.writeUInt16BE(name.length, 1)
  return Buffer.concat([head, name])
}

/** The scope and what it became; undefined when it was deleted. Nothing of the payload is kept. */
export function decodeChange(payload: Buffer): {
  readonly scope: string
  readonly record: StoredRecord | undefined
} {
  const nameEnd = fixedBytes + payload.readUInt16BE(1)
  const scope = payload.toString('utf8', fixedBytes, nameEnd)
  if (payload.readUInt8() === deleteOperation) return { scope, record: undefined }
  const record = {
    version: payload.readUInt32BE(3),
    updatedAtMs: payload.readDoubleBE(7),
    sealed: Buffer.from(payload.subarray(nameEnd)),
  }
  return { scope, record }
}
