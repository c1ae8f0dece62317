import { join } from 'node:path'
import t from 'tap'
import { shownPrice } from './linkList.ts'
import { readPriceRules } from './priceRules.ts'

t.test('prices by request are read from a JSON file, and what is wrong with it is said', async (t) => {
  const table = { rules: [{ when: { path: '/a' }, price: '0.05' }], otherwise: null }
  const folder = t.testdir({ good: JSON.stringify(table), list: '[]', broken: '{"rules":' })
  t.strictSame(readPriceRules(join(folder, 'good')), table)
  t.throws(() => readPriceRules(join(folder, 'none')), /none cannot be read/)
  t.throws(() => readPriceRules(join(folder, 'list')), /Expected a JSON object in .*list, such as/)
  t.throws(() => readPriceRules(join(folder, 'broken')), /Expected JSON in .*broken/)
})

t.test('a list shows the range of such a price', async (t) => {
  t.equal(shownPrice({ price: '0.5' }), '0.5')
  t.equal(shownPrice({ price: {}, priceMin: '0.01', priceMax: '0.05' }), 'from 0.01 to 0.05')
})
