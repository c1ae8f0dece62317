import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { bodies, paths, pick, target } from '../test/helpers/admin-api/fuzzTarget.ts'

/** The Big List of Naughty Strings, beside the repository where it is present. */
const corpus = join(import.meta.dirname, '../../shared/corpora/blns.json')

const skip = existsSync(corpus) ? false : 'the corpus is not there'

t.test('no naughty string, in no field and no path, is answered with a 5xx', { skip }, async (t) => {
  const strings: string[] = JSON.parse(readFileSync(corpus, 'utf8'))
  const { id, right, check } = await target(t)
  let requestCount = 0
  for (const text of strings) {
    for (const { method, path, fields } of bodies) {
      for (const field of fields) {
        await check(method, path, { ...pick(right, fields), [field]: text })
        requestCount++
      }
      await check(method, path, { ...pick(right, fields), [text]: text })
    }
    await check('PATCH', `/api/v1/links/${id}`, { title: text, description: text, slug: text, price: text })
    await check('POST', '/api/v1/links', {
      ...right,
      tags: [text],
      upstreamHeaders: { [text]: text, 'x-a': text },
    })
    for (const [method, path] of paths(encodeURIComponent(text.toWellFormed()))) await check(method!, path!)
  }
  t.ok(requestCount > 10_000, `${requestCount} bodies were tried`)
})
