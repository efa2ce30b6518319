//! The Rust peer: mq-bridge with the routes of a file, until it is interrupted.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: mq-bridge-peer ROUTES.yaml")?;
    mq_bridge::deploy_file(path).await?;
    tokio::signal::ctrl_c().await?;
    Ok(())
}
