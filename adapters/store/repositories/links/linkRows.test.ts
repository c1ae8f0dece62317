import t from 'tap'
import { linkDefaults } from '../../../../core/domain/link.ts'
import { toKeptLink, toLinkColumns, toServedLink } from './linkRows.ts'

const documents = { inputSchema: { type: 'object', required: ['city'] }, outputExample: [{ high: 19 }] }

function rowOf(id: string, more: object = {}, store: object = {}) {
  const link = {
    ...linkDefaults,
    slug: id,
    url: `https://api.example/${id}`,
    title: id,
    description: '',
    price: '0.10',
    isActive: true,
    suspension: null,
    privateSlug: null,
    ...more,
  }
  return {
    ...(toLinkColumns(link) as object),
    id,
    store_id: 's1',
    created_at_ms: 1,
    updated_at_ms: 2,
    version: 3,
    username: 'ann',
    payout_base: '0xa',
    payout_solana: null,
    ...store,
  }
}

t.test('a link that is kept says the same as one that is read, and so does a copy of it', async (t) => {
  const odd = { linkType: 'standard', responseMode: 'raw', settle: 'before', methods: ['GET'], tags: ['x'] }
  const rows = [
    rowOf('a'),
    rowOf('b', documents),
    rowOf('c', { outputExample: documents.outputExample, ...odd }),
    rowOf('d', documents, { username: 'anna' }),
    rowOf('e', documents, { payout_base: '0xb' }),
    rowOf('f', documents, { payout_solana: 'So1' }),
    rowOf('g', documents, { store_id: 's2' }),
  ]
  for (const neighbour of [undefined, ...rows.map((row) => toServedLink(row))]) {
    for (const row of rows) {
      const kept = toKeptLink(row, neighbour)
      t.strictSame(JSON.parse(JSON.stringify(kept)), JSON.parse(JSON.stringify(toServedLink(row))))
      t.strictSame({ ...kept }.inputSchema, toServedLink(row).inputSchema)
      t.strictSame(Object.keys(kept).sort(), Object.keys(toServedLink(row)).sort())
    }
  }
})

t.test('whoever changes a document that he read changes it for nobody else', async (t) => {
  const kept = toKeptLink(rowOf('a', documents), undefined)
  ;(kept.inputSchema as { type: string }).type = 'array'
  t.strictSame(kept.inputSchema, documents.inputSchema)
})
