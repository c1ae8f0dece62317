import fc from 'fast-check'
import t from 'tap'
import { apiKeyFrom, createApiKey, isApiKeyForm, prefixOf } from './apiKey.ts'

t.test('a new key has the documented form and passes its own checksum', async (t) => {
  const keys = Array.from({ length: 500 }, createApiKey)
  t.equal(new Set(keys).size, keys.length)
  t.ok(keys.every((key) => /^tg_live_[0-9A-Za-z]{38}$/.test(key) && isApiKeyForm(key)))
  t.equal(prefixOf(keys[0]!), keys[0]!.slice(0, 12))
})

t.test('the same bytes give the same key, others another', async () => {
  const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 })
  fc.assert(
    fc.property(bytes, bytes, (a, b) => {
      const isSame = Buffer.compare(a, b) === 0
      return (
        isApiKeyForm(apiKeyFrom(a)) &&
        apiKeyFrom(Buffer.from(a)) === apiKeyFrom(a) &&
        (apiKeyFrom(a) === apiKeyFrom(b)) === isSame
      )
    }),
  )
})

t.test('one wrong character, anywhere, is noticed without a look-up', async () => {
  const key = apiKeyFrom(Buffer.alloc(32, 7))
  fc.assert(
    fc.property(fc.nat(key.length - 1), fc.constantFrom(...'0aZ_- '), (at, character) => {
      const changed = key.slice(0, at) + character + key.slice(at + 1)
      return isApiKeyForm(changed) === (changed === key)
    }),
    { numRuns: 1_000 },
  )
})

t.test('nothing else has the form of a key', async () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => !isApiKeyForm(text)))
})
