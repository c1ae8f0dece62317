import { Ajv } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import t from 'tap'
import { startJob } from '../core/jobs/job.ts'
import { startAdmin } from '../test/helpers/admin-api/startAdmin.ts'
import type { Feature, StartJob } from './deps.ts'
import { features } from './features.ts'
import { callerOf } from './http/callers.ts'
import { exactly, field, respond } from './http/responses.ts'
import { createValidators } from './http/validation.ts'

const everywhere = { origin: 'https://other.example' }

/** A feature as a newcomer would add it. */
const weather = (...jobs: StartJob[]): Feature => ({
  name: 'Weather',
  about: 'What it is like outside.',
  publicRoutes: [
    (app) => {
      const schema = { response: respond({ 200: exactly({ it: field.text() }) }) }
      app.get('/api/weather', { config: { anyOrigin: true }, schema }, async () => ({ it: 'rains' }))
    },
  ],
  storeRoutes: [
    (app) => {
      const schema = { response: respond({ 200: exactly({ over: field.text() }) }, [401]) }
      app.get('/api/v1/weather', { schema }, async (request) => ({ over: callerOf(request).store.username }))
    },
  ],
  jobs,
})

t.test('an entry in the list is all that a feature needs', async (t) => {
  const f = await startAdmin(t, { features: [...features, weather()] })
  const { key, username } = await f.store()
  const open = await f.call('GET', '/api/weather', { headers: everywhere })
  t.same(open.body, { it: 'rains' })
  t.equal(open.headers['access-control-allow-origin'], '*')
  t.equal((await f.call('POST', '/api/weather')).status, 405)

  t.equal((await f.call('GET', '/api/v1/weather')).status, 401)
  const own = await f.call('GET', '/api/v1/weather', { key, headers: everywhere })
  t.same(own.body, { over: username })
  t.ok(own.headers['x-ratelimit-remaining'], 'counted like every request with a key')
  t.equal(own.headers['access-control-allow-origin'], undefined)

  const { body } = await f.call('GET', '/openapi.json')
  t.same(body.tags.at(-1), { name: 'Weather', description: 'What it is like outside.' })
  t.same(body.paths['/api/weather'].get.tags, ['Weather'])
  t.same(body.paths['/api/weather'].get.security, [])
  t.same(body.paths['/api/v1/weather'].get.security, [{ apiKey: [] }])
})

t.test('what a route takes is described by a right schema, and checked by it', async (t) => {
  const f = await startAdmin(t)
  const { key } = await f.store()
  const { body } = await f.call('GET', '/openapi.json')
  const ajv = new Ajv()
  const compile = createValidators() as FastifySchemaCompiler<object>
  const isRight = (schema: object, where: string) => {
    t.ok(ajv.validateSchema(schema), where)
    const check = compile({ schema, httpPart: 'body', method: '', url: '' })
    t.doesNotThrow(() => void check({}), `${where} can be compiled`)
  }
  interface Operation {
    readonly requestBody?: { readonly content: Record<string, { readonly schema: object }> }
    readonly parameters?: readonly { readonly in: string; readonly name: string; readonly schema: object }[]
  }
  let taken = 0
  for (const [path, methods] of Object.entries<Record<string, Operation>>(body.paths)) {
    for (const [method, { requestBody, parameters = [] }] of Object.entries(methods)) {
      const where = `${method.toUpperCase()} ${path}`
      const bodySchema = requestBody?.content['application/json']?.schema
      const queries = parameters.filter((parameter) => parameter.in === 'query')
      if (bodySchema !== undefined) isRight(bodySchema, where)
      for (const { name, schema } of queries) isRight(schema, `${where}?${name}`)
      if (bodySchema === undefined && queries.length === 0) continue
      taken++
      const asked = { key, ...(bodySchema !== undefined && { body: {} }) }
      const query = queries.map(({ name }) => `${name}=1`).join('&')
      const { status } = await f.call(
        method.toUpperCase() as 'GET',
        `${path.replace(/\{\w+\}/g, 'x')}?${query}`,
        asked,
      )
      t.ok(status < 500, `${where} is answered with ${status}`)
    }
  }
  t.ok(taken > 30, `${taken} routes`)
})

t.test('every heading of the reference is one of the features, and the other way round', async (t) => {
  const f = await startAdmin(t)
  const { body } = await f.call('GET', '/openapi.json')
  const used = new Set<string>()
  for (const methods of Object.values<Record<string, { tags: string[] }>>(body.paths)) {
    for (const { tags } of Object.values(methods)) for (const tag of tags) used.add(tag)
  }
  const named: string[] = body.tags.map(({ name }: { name: string }) => name)
  t.same([...used].sort(), named.sort())
})

t.test('a job starts with the listener and has ended when the API is closed', async (t) => {
  const seen: string[] = []
  const untilStopped: StartJob = (api) => {
    seen.push(`started at ${api.publicUrl}`)
    return {
      async stop() {
        await new Promise(setImmediate)
        seen.push('ended')
      },
    }
  }
  const f = await startAdmin(t, { features: [...features, weather(untilStopped)] })
  t.same(seen, [], 'not before it listens')
  await f.admin.listen({ host: '127.0.0.1', port: 0 })
  t.same(seen, ['started at https://pay.example'])
  await f.admin.close()
  t.same(seen, ['started at https://pay.example', 'ended'])
})

t.test('a job that fails is logged and takes nobody with it', async (t) => {
  const fails: StartJob = ({ log }) =>
    startJob({
      name: 'count clouds',
      everyMs: 60_000,
      startsNow: true,
      log,
      run() {
        throw new Error('no clouds')
      },
    })
  let runs = 0
  const counts: StartJob = ({ log }) =>
    startJob({ name: 'count runs', everyMs: 60_000, startsNow: true, log, run: () => void runs++ })
  const f = await startAdmin(t, { features: [...features, weather(fails, counts)] })
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  t.equal(runs, 1)
  t.match(f.logged, [{ job: 'count clouds', err: { message: 'no clouds' } }])
  t.equal((await fetch(`http://127.0.0.1:${port}/api/weather`)).status, 200)
})
