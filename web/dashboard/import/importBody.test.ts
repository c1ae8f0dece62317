import t from 'tap'
import { startAdmin } from '../../../test/helpers/admin-api/startAdmin.ts'
import { type ImportFields, importBody } from './importBody.ts'

const plain: ImportFields = {
  document: '{"openapi": "3.1.0"}',
  price: ' 0.01 ',
  rules: '',
  as: 'each',
  visibility: 'as it was',
  server: '',
  source: '',
  headers: '',
}

t.test('what is left empty is left to the document and the service', async (t) => {
  t.same(importBody(plain), { body: { document: plain.document, as: 'each', price: '0.01' }, errors: {} })
  t.same(importBody({ ...plain, price: ' ' }).body, { document: plain.document, as: 'each' })
})

t.test('prices and headers are read line by line, whatever stands in their names', async (t) => {
  const rules = 'POST /render = 0.05\n\n  /a=b=none\nDELETE * =none'
  const headers = 'X-Key: a:b c \r\nAuthorization:Bearer x'
  const { body, errors } = importBody({
    ...plain,
    rules,
    headers,
    visibility: 'listed',
    server: ' https://a.b ',
  })
  t.same(errors, {})
  t.same(body['prices'], { 'POST /render': '0.05', '/a=b': 'none', 'DELETE *': 'none' })
  t.same(body['upstreamHeaders'], { 'X-Key': 'a:b c', Authorization: 'Bearer x' })
  t.match(body, { isPublic: true, server: 'https://a.b' })
  t.notOk('prices' in importBody({ ...plain, rules, as: 'one' }).body, 'one link has one price')
  t.match(importBody({ ...plain, visibility: 'unlisted' }).body, { isPublic: false })
})

t.test('a line that is none is named by its number, and a secret is not repeated', async (t) => {
  const { errors } = importBody({ ...plain, rules: 'a = 1\nnonsense', headers: 'hunter2' })
  t.match(errors, { prices: /^Line 2 .*POST \/render = 0\.05/, upstreamHeaders: /^Line 1 / })
  t.notMatch(errors['upstreamHeaders'], /hunter2/)
  t.match(importBody({ ...plain, document: ' ' }).errors, { document: /Choose a file/ })
  t.match(importBody({ ...plain, document: 'ä'.repeat(8_000_001) }).errors, { document: /16\.0 MB/ })
})

t.test('the service takes what the form sends', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const document = JSON.stringify({
    openapi: '3.1.0',
    info: { title: 'Pets' },
    servers: [{ url: 'https://api.example.com' }],
    paths: { '/pets': { get: {}, post: {} } },
  })
  const fields = { ...plain, document, rules: 'POST * = none', headers: 'X-Key: a', source: 'pets' }
  const body = { ...importBody({ ...fields, visibility: 'listed' }).body, dryRun: true, offset: 0 }
  const { status, body: answer } = await f.call('POST', '/api/v1/links/import', { key, body })
  t.equal(status, 200)
  t.match(answer.data.operations, [
    { operation: 'GET /pets', action: 'create' },
    { operation: 'POST /pets', action: 'left_out' },
  ])
})
