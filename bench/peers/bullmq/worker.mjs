// Accepts messages on standard input and delivers them as Novu does: one job for a message, which adds a job for each subscriber in
// chunks of 100; the subscriber's job adds a step's job; the step's job inserts the message document. Redis has the queues, PostgreSQL
// the subscribers and the documents.
//
// usage: node worker.mjs REDIS-PORT POSTGRES-PORT
import { createInterface } from 'node:readline'
import { Queue, Worker } from 'bullmq'
import pg from 'pg'

const [redisPort, postgresPort] = process.argv.slice(2).map(Number)
const connection = { host: '127.0.0.1', port: redisPort, maxRetriesPerRequest: null }
const documents = new pg.Pool({ host: '127.0.0.1', port: postgresPort, user: 'postgres', database: 'postgres', max: 64 })

const chunk = 100 // Novu's
const worker = { connection, concurrency: 200, lockDuration: 90_000 } // Novu's
const queue = (name) => new Queue(name, { connection, defaultJobOptions: { removeOnComplete: true } }) // Novu's
const workflow = queue('workflow')
const subscriber = queue('subscriber')
const step = queue('step')

async function trigger({ data }) {
  const { rows } = await documents.query('select follower from followers where author = $1 order by follower', [data.from])
  const jobs = rows.map(({ follower }) => ({ name: 'subscriber', data: { post: data, owner: follower } }))
  const chunks = []
  for (let start = 0; start < jobs.length; start += chunk) chunks.push(jobs.slice(start, start + chunk))
  await Promise.all(chunks.map((some) => subscriber.addBulk(some)))
}

async function addStep({ data }) {
  await step.add('step', data)
}

async function insert({ data: { post, owner } }) {
  await documents.query({
    name: 'insert',
    text: 'insert into inbox values ($1, $2, $3) on conflict do nothing',
    values: [owner, post.id, post],
  })
}

const workers = [new Worker('workflow', trigger, worker), new Worker('subscriber', addStep, worker), new Worker('step', insert, worker)]
for (const each of workers) {
  each.on('error', (error) => console.error(error))
  each.on('failed', (job, error) => console.error(job?.queueName, error))
}
await Promise.all([...workers, workflow, subscriber, step].map((each) => each.waitUntilReady()))

const answer = () => process.stdout.write('{"ready":true}\n')
answer()
for await (const line of createInterface({ input: process.stdin })) {
  await workflow.add('trigger', JSON.parse(line))
  answer()
}
await Promise.all(workers.map((each) => each.close()))
await Promise.all([workflow, subscriber, step].map((each) => each.close()))
await documents.end()
