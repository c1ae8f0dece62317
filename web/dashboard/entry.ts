import { startIslands } from '../island/startIslands.ts'
import { Dashboard } from './dashboard.ts'

void startIslands({ dashboard: () => Dashboard })
