import t from 'tap'
import { reviewsContract } from '../reviews.ts'
import { makePostgres, whySkipped } from './testPostgres.ts'

const skip = (await whySkipped()) ?? false

t.test('reviews in PostgreSQL', { skip }, async (t) => reviewsContract(t, makePostgres))
