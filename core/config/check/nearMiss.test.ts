import fc from 'fast-check'
import t from 'tap'
import { configSchema } from '../schema.ts'
import { distance, nearMiss } from './nearMiss.ts'

const word = fc.stringMatching(/^[a-z]{0,12}$/)

t.test('the distance is a measure: zero only to itself, the same both ways', (t) => {
  fc.assert(fc.property(word, word, (a, b) => (distance(a, b) === 0) === (a === b)))
  fc.assert(fc.property(word, word, (a, b) => distance(a, b) === distance(b, a)))
  fc.assert(fc.property(word, word, (a, b) => distance(a, b) <= Math.max(a.length, b.length)))
  t.end()
})

t.test('one slip is one step: a letter left out, added, changed, or swapped with the next', (t) => {
  const slip = fc.record({ at: fc.nat(20), kind: fc.constantFrom('drop', 'add', 'change', 'swap') })
  fc.assert(
    fc.property(word, slip, (right, { at, kind }) => {
      fc.pre(right.length >= 2)
      return distance(right, withSlip(right, at, kind)) <= 1
    }),
  )
  t.end()
})

t.test('every option of the configuration is found again after one slip', (t) => {
  const names = Object.keys(configSchema.properties.gateway.properties)
  fc.assert(
    fc.property(
      fc.constantFrom(...names),
      fc.nat(20),
      fc.constantFrom('drop', 'add', 'swap'),
      (name, at, kind) => {
        fc.pre(name.length >= 5)
        return nearMiss(withSlip(name, at, kind), names) === name
      },
    ),
  )
  t.end()
})

t.test('a word that is like none gets no suggestion', (t) => {
  t.equal(nearMiss('zebra', ['points', 'windowMs']), undefined)
  t.equal(nearMiss('', ['a', 'points']), undefined)
  t.equal(nearMiss('x'.repeat(10_000), ['x']), undefined)
  t.equal(nearMiss('ip', ['no']), undefined)
  t.end()
})

function withSlip(right: string, position: number, kind: string): string {
  const at = position % (right.length - 1)
  if (kind === 'drop') return right.slice(0, at) + right.slice(at + 1)
  if (kind === 'add') return `${right.slice(0, at)}q${right.slice(at)}`
  if (kind === 'change') return `${right.slice(0, at)}q${right.slice(at + 1)}`
  return right.slice(0, at) + right[at + 1] + right[at] + right.slice(at + 2)
}
