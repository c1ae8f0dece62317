import fc from 'fast-check'
import t from 'tap'
import { readMessage } from './message.ts'
import { readCompactLength, readWireTransaction } from './wire.ts'

/** The shortest form of a length, as the format defines it. */
function compact(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...compact(value >> 7)]
}

t.test('every length of 16 bits is read from its shortest form', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 0xffff }), fc.uint8Array({ maxLength: 3 }), (value, rest) => {
      const bytes = compact(value)
      const read = readCompactLength(Uint8Array.from([...bytes, ...rest]), 0)
      return read?.value === value && read.next === bytes.length
    }),
  )
})

t.test('every longer form, a fourth byte and anything above 16 bits are refused', async (t) => {
  for (const bad of [
    [],
    [0x80],
    [0x80, 0],
    [0x85, 0],
    [0x80, 0x80],
    [0x80, 0x80, 0],
    [0xff, 0xff, 4],
    [0xff, 0xff, 0x83, 0],
  ]) {
    t.equal(readCompactLength(Uint8Array.from(bad), 0), undefined, JSON.stringify(bad))
  }
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 4 }), (bytes) => {
      const read = readCompactLength(bytes, 0)
      // One spelling for each value: encoding it again gives the bytes that were read.
      return read === undefined || Buffer.from(compact(read.value)).equals(bytes.subarray(0, read.next))
    }),
    { numRuns: 5_000 },
  )
})

t.test('a packet without signatures, one that ends in them, and one above 1232 bytes are none', async (t) => {
  t.equal(readWireTransaction(Uint8Array.of()), undefined)
  t.equal(readWireTransaction(Uint8Array.of(0, 1, 2, 3)), undefined)
  t.equal(readWireTransaction(new Uint8Array(65).fill(1, 0, 1)), undefined)
  t.ok(readWireTransaction(new Uint8Array(1232).fill(1, 0, 1)))
  t.equal(readWireTransaction(new Uint8Array(1233).fill(1, 0, 1)), undefined)
})

t.test('messages of a later version, and headers that contradict themselves, are none', async (t) => {
  const message = (header: number[], keys: number, prefix: number[] = []) =>
    Uint8Array.from([
      ...prefix,
      ...header,
      keys,
      ...new Uint8Array(32 * keys + 32),
      0,
      ...(prefix.length > 0 ? [0] : []),
    ])
  t.match(readMessage(message([1, 0, 0], 1)), {
    version: 'legacy',
    requiredSignatures: 1,
    instructions: { length: 0 },
  })
  t.match(readMessage(message([1, 0, 0], 1, [0x80])), { version: 0, lookupTables: 0 })
  t.equal(readMessage(message([1, 0, 0], 1, [0x81])), undefined, 'version 1')
  t.equal(readMessage(message([1, 0, 0], 1, [0xff])), undefined, 'version 127')
  t.equal(readMessage(message([0, 0, 0], 1)), undefined, 'nobody signs')
  t.equal(readMessage(message([1, 1, 0], 1)), undefined, 'the fee payer is read-only')
  t.equal(readMessage(message([2, 0, 0], 1)), undefined, 'more signers than keys')
  t.equal(readMessage(message([1, 0, 1], 1)), undefined, 'signers and read-only keys overlap')
})
