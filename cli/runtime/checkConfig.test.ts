import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startGateway } from '../../test/helpers/gateway.ts'
import { checkConfig } from './checkConfig.ts'

/** A store with at least one link, and a configuration with a plugin file beside it. */
async function start(t: Test, when: object, slots: object = {}, more: readonly string[] = []) {
  const folder = t.testdir({
    'odd.js': `export default { name: 'odd', api: 1, needs: [], slots: ${JSON.stringify(slots)},
      options: { type: 'object', additionalProperties: false, properties: {} },
      setup: () => ({ route: ({ link }) => link.slug.startsWith('reports') ? { guard() {}, deliver() {}, log() {} } : undefined }) }`,
  })
  const path = join(folder, 'tollgate.db')
  const gateway = await startGateway(t, { dbPath: path })
  for (const slug of [...more, 'reports']) await gateway.addLink({ slug, url: 'http://127.0.0.1:1' })
  const file = join(folder, 'tollgate.json')
  const plugins = [{ use: './odd.js', when }, { use: 'upstream' }]
  await writeFile(
    file,
    JSON.stringify({
      publicUrl: 'http://gateway.test',
      storage: { path },
      secretFile: join(folder, 's'),
      plugins,
    }),
  )
  return () => checkConfig(file, { TOLLGATE_SECRET: '00'.repeat(32) })
}

t.test('a check shows what each link runs, after the answer too', async (t) => {
  const check = await start(t, { links: ['demo/*'] })
  const { links, warnings } = await check()
  t.match(links, [{ link: 'demo/reports', deliver: ['odd'], log: ['odd'] }])
  t.match(links[0]!.pipeline, [{ phase: 'guard', plugin: 'odd' }])
  t.strictSame(
    warnings.filter((text) => text.includes('when.links')),
    [],
  )
})

t.test('a pattern that no link matches is told of, with the link that was meant', async (t) => {
  const check = await start(t, { links: ['demo/reprots'] })
  const { warnings } = await check()
  t.match(warnings.join('\n'), /no link matches demo\/reprots .* Did you mean demo\/reports\?/)
})

t.test('a link whose program does not hold is named, though no sample of links shows it', async (t) => {
  const check = await start(t, { links: ['demo/*'] }, { guard: { reads: ['payment'] } })
  await t.rejects(check(), {
    name: 'GenerationError',
    message: /^demo\/reports: Plugin odd reads payment in phase guard/,
  })
})

t.test('a problem of many links is told once, with the first of them by name', async (t) => {
  const more = ['reports-4', 'reports-1', 'reports-3', 'reports-2']
  const check = await start(t, { links: ['demo/*'] }, { guard: { reads: ['payment'] } }, more)
  const problem =
    'Plugin odd reads payment in phase guard, but no plugin before it writes payment. Add the plugin that does in the list of plugins.'
  await t.rejects(check(), {
    message: `demo/reports, demo/reports-1, demo/reports-2 and 2 more: ${problem}`,
  })
})

t.test('a check says that no paid link can be paid, and why', async (t) => {
  const check = await start(t, { links: ['demo/*'] })
  const { warnings } = await check()
  t.match(warnings.at(-1), /No paid link can be paid: no network with a facilitator is configured/)
})
